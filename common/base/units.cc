#include "common/base/units.h"

#include <cmath>
#include <limits>
#include <optional>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/utf8.h"

namespace headrace {
namespace {

constexpr absl::Duration kMaxDuration = absl::Hours(24 * 3650);
// 9,223,372,036,854,775,807 has 19 digits; more than this before or after the point is no number
// that anyone means.
constexpr int kMaxDigits = 18;
constexpr size_t kMaxQuotedBytes = 40;

absl::Status Invalid(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", ExcerptUtf8(text, kMaxQuotedBytes), "\" ", what));
}

// A decimal number as written: digits / 10^fraction_digits.
struct Decimal {
  absl::uint128 digits = 0;
  int fraction_digits = 0;
};

// Takes "12" or "1.5" from the front of *text; empty if there is none.
std::optional<Decimal> TakeDecimal(absl::string_view* text) {
  Decimal out;
  int count = 0;
  bool point = false;
  size_t i = 0;
  for (; i < text->size(); ++i) {
    const char c = (*text)[i];
    if (c == '.' && !point && i > 0) {
      point = true;
    } else if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      if (++count > 2 * kMaxDigits) return std::nullopt;
      out.digits = out.digits * 10 + static_cast<unsigned>(c - '0');
      if (point) ++out.fraction_digits;
    } else {
      break;
    }
  }
  if (count == 0 || (point && out.fraction_digits == 0)) return std::nullopt;
  text->remove_prefix(i);
  return out;
}

// `number` times `multiple`; empty when that is no integer or does not fit.
std::optional<int64_t> Times(Decimal number, uint64_t multiple) {
  while (number.fraction_digits > 0 && number.digits % 10 == 0) {
    number.digits /= 10;
    --number.fraction_digits;
  }
  if (number.fraction_digits > kMaxDigits) return std::nullopt;
  absl::uint128 divisor = 1;
  for (int i = 0; i < number.fraction_digits; ++i) divisor *= 10;
  const absl::uint128 limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (number.digits > absl::Uint128Max() / multiple) return std::nullopt;
  const absl::uint128 product = number.digits * multiple;
  if (product % divisor != 0 || product / divisor > limit) return std::nullopt;
  return static_cast<int64_t>(product / divisor);
}

struct Unit {
  absl::string_view name;
  uint64_t multiple;
};

// Descending, and a name before its own prefix.
constexpr Unit kDurationUnits[] = {
    {"h", 3'600'000'000'000}, {"ms", 1'000'000}, {"m", 60'000'000'000},
    {"s", 1'000'000'000},     {"us", 1'000},     {"ns", 1}};

constexpr Unit kCountUnits[] = {{"", 1}, {"k", 1'000}, {"m", 1'000'000}, {"g", 1'000'000'000}};

constexpr Unit kByteUnits[] = {
    {"", 1},
    {"b", 1},
    {"kib", uint64_t{1} << 10},
    {"mib", uint64_t{1} << 20},
    {"gib", uint64_t{1} << 30},
    {"kb", 1'000},
    {"mb", 1'000'000},
    {"gb", 1'000'000'000},
};

template <size_t N>
absl::StatusOr<int64_t> ParseWithUnit(absl::string_view text, const Unit (&units)[N],
                                      absl::string_view wanted) {
  absl::string_view rest = text;
  const std::optional<Decimal> number = TakeDecimal(&rest);
  if (!number.has_value()) return Invalid(text, wanted);
  for (const Unit& unit : units) {
    if (!absl::EqualsIgnoreCase(rest, unit.name)) continue;
    const std::optional<int64_t> value = Times(*number, unit.multiple);
    if (!value.has_value()) return Invalid(text, "is no integer below 2^63");
    return *value;
  }
  return Invalid(text, wanted);
}

// `value` with at most `decimals` digits after the point and no zeros at its end.
std::string Trimmed(double value, int decimals) {
  std::string text = absl::StrFormat("%.*f", decimals, value);
  if (absl::StrContains(text, ".")) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  constexpr absl::string_view kWanted = "is no duration like 120s, 500ms or 1m30s";
  if (text == "0") return absl::ZeroDuration();
  if (text.empty()) return Invalid(text, kWanted);
  absl::Duration total;
  uint64_t last_multiple = std::numeric_limits<uint64_t>::max();
  absl::string_view rest = text;
  while (!rest.empty()) {
    const std::optional<Decimal> number = TakeDecimal(&rest);
    if (!number.has_value()) return Invalid(text, kWanted);
    const Unit* found = nullptr;
    for (const Unit& unit : kDurationUnits) {
      if (found == nullptr && absl::StartsWith(rest, unit.name)) found = &unit;
    }
    if (found == nullptr || found->multiple >= last_multiple) return Invalid(text, kWanted);
    const std::optional<int64_t> nanos = Times(*number, found->multiple);
    if (!nanos.has_value())
      return Invalid(text, "is no whole number of nanoseconds below 10 years");
    total += absl::Nanoseconds(*nanos);
    last_multiple = found->multiple;
    rest.remove_prefix(found->name.size());
  }
  if (total > kMaxDuration) return Invalid(text, "is longer than 10 years");
  return total;
}

absl::StatusOr<int64_t> ParseCount(absl::string_view text) {
  return ParseWithUnit(text, kCountUnits, "is no count like 1500, 10k, 5M or 1G");
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  return ParseWithUnit(text, kByteUnits, "is no size like 4096, 64KiB or 16MB");
}

std::string FormatDuration(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "inf";
  if (duration == -absl::InfiniteDuration()) return "-inf";
  if (duration < absl::ZeroDuration())
    return absl::StrCat("-", headrace::FormatDuration(-duration));
  if (duration == absl::ZeroDuration()) return "0s";
  // Each range ends where rounding in it would show the next unit.
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 0.0009995) return absl::StrFormat("%.0fus", seconds * 1e6);
  if (seconds < 0.9995) return absl::StrFormat("%.0fms", seconds * 1e3);
  if (seconds < 59.95) return absl::StrCat(Trimmed(seconds, 1), "s");
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  const int64_t minutes = std::llround(seconds / 60);
  return absl::StrFormat("%dh%02dm", minutes / 60, minutes % 60);
}

std::string FormatCount(double count) {
  if (!std::isfinite(count)) return "?";
  if (count < 0) return absl::StrCat("-", FormatCount(-count));
  constexpr absl::string_view kSuffixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t power = 0;
  // 999.5 of one unit would be shown as 1000 of it.
  while (count >= 999.5 && power + 1 < std::size(kSuffixes)) {
    count /= 1000;
    ++power;
  }
  const int decimals = count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return absl::StrCat(Trimmed(count, decimals), kSuffixes[power]);
}

std::string FormatGrouped(int64_t value) {
  std::string digits = absl::StrCat(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string FormatBytes(int64_t bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t power = 0;
  while (std::abs(value) >= 1023.95 && power + 1 < std::size(kUnits)) {
    value /= 1024;
    ++power;
  }
  return absl::StrCat(Trimmed(value, 1), " ", kUnits[power]);
}

}  // namespace headrace
