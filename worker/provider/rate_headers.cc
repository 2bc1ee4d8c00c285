#include "worker/provider/rate_headers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/civil_time.h"

namespace headrace::provider {
namespace {

// Smaller plain numbers are seconds from now, larger ones epoch seconds, and still larger ones
// epoch milliseconds (case F1). 1e9 s is September 2001, and 30 years as a wait; 1e11 s is the year
// 5138.
constexpr double kFirstEpochSeconds = 1e9;
constexpr double kFirstEpochMilliseconds = 1e11;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Duration Bounded(absl::Duration wait) {
  return std::clamp(wait, absl::ZeroDuration(), kLongestReset);
}

// Digits with at most one point, at the front of *text.
bool ConsumeDecimal(absl::string_view* text, double* value) {
  size_t end = 0;
  int points = 0;
  while (end < text->size() && (IsDigit((*text)[end]) || (*text)[end] == '.')) {
    points += (*text)[end] == '.';
    ++end;
  }
  if (end == 0 || points > 1 || !absl::SimpleAtod(text->substr(0, end), value)) return false;
  text->remove_prefix(end);
  return true;
}

bool ConsumeUnit(absl::string_view* text, absl::Duration* unit) {
  struct Unit {
    absl::string_view name;
    absl::Duration duration;
  };
  // `ms` before `m`.
  static const Unit kUnits[] = {
      {"ms", absl::Milliseconds(1)},
      {"us", absl::Microseconds(1)},
      {"\xC2\xB5s", absl::Microseconds(1)},
      {"ns", absl::Nanoseconds(1)},
      {"s", absl::Seconds(1)},
      {"m", absl::Minutes(1)},
      {"h", absl::Hours(1)},
      {"d", absl::Hours(24)},
  };
  for (const Unit& candidate : kUnits) {
    if (absl::StartsWith(*text, candidate.name)) {
      text->remove_prefix(candidate.name.size());
      *unit = candidate.duration;
      return true;
    }
  }
  return false;
}

std::optional<int> Month(absl::string_view name) {
  static constexpr absl::string_view kMonths[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                                  "jul", "aug", "sep", "oct", "nov", "dec"};
  for (size_t i = 0; i < std::size(kMonths); ++i) {
    if (absl::EqualsIgnoreCase(name, kMonths[i])) return static_cast<int>(i) + 1;
  }
  return std::nullopt;
}

std::optional<absl::Time> MakeTime(absl::string_view day, absl::string_view month,
                                   absl::string_view year, absl::string_view clock) {
  int d = 0;
  int y = 0;
  std::array<int, 3> hms{};
  const std::vector<absl::string_view> parts = absl::StrSplit(clock, ':');
  const std::optional<int> m = Month(month);
  if (!m || parts.size() != 3 || !absl::SimpleAtoi(day, &d) || !absl::SimpleAtoi(year, &y)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < 3; ++i) {
    if (!absl::SimpleAtoi(parts[i], &hms[i])) return std::nullopt;
  }
  if (!IsDigit(year[0]) || (year.size() != 2 && year.size() != 4)) return std::nullopt;
  // A two-digit year: RFC 9110 lets 50 years ahead be the past; every such date here is recent.
  if (year.size() == 2) y += y < 70 ? 2000 : 1900;
  // A leap second, 60, normalises into the next minute.
  if (d < 1 || d > 31 || y < 1970 || y > 9999 || hms[0] < 0 || hms[0] > 23 || hms[1] < 0 ||
      hms[1] > 59 || hms[2] < 0 || hms[2] > 60) {
    return std::nullopt;
  }
  return absl::FromCivil(absl::CivilSecond(y, *m, d, hms[0], hms[1], hms[2]), absl::UTCTimeZone());
}

// A number of seconds from now, or a point in time by its size.
std::optional<absl::Duration> PlainNumber(double value, absl::Time now) {
  if (!(value >= 0)) return absl::ZeroDuration();
  if (value < kFirstEpochSeconds) return Bounded(absl::Seconds(value));
  if (value > 1e15) return std::nullopt;
  const absl::Duration since_epoch =
      value < kFirstEpochMilliseconds ? absl::Seconds(value) : absl::Milliseconds(value);
  return Bounded(absl::UnixEpoch() + since_epoch - now);
}

}  // namespace

std::optional<absl::Duration> ParseUnitDuration(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return std::nullopt;
  absl::Duration sum;
  while (!text.empty()) {
    double value = 0;
    absl::Duration unit;
    if (!ConsumeDecimal(&text, &value) || !ConsumeUnit(&text, &unit)) return std::nullopt;
    sum += unit * value;
  }
  return Bounded(sum);
}

std::optional<absl::Time> ParseHttpDate(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  // "Wed, 21 Oct 2026 07:28:00 GMT"
  if (words.size() == 6 && absl::EndsWith(words[0], ",")) {
    return MakeTime(words[1], words[2], words[3], words[4]);
  }
  // "Wednesday, 21-Oct-26 07:28:00 GMT"
  if (words.size() == 4 && absl::EndsWith(words[0], ",")) {
    const std::vector<absl::string_view> date = absl::StrSplit(words[1], '-');
    if (date.size() != 3) return std::nullopt;
    return MakeTime(date[0], date[1], date[2], words[2]);
  }
  // "Wed Oct 21 07:28:00 2026"
  if (words.size() == 5) return MakeTime(words[2], words[1], words[4], words[3]);
  return std::nullopt;
}

std::optional<absl::Duration> ParseReset(absl::string_view text, absl::Time now) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty() || text.size() > 64) return std::nullopt;
  if (IsDigit(text.front()) || text.front() == '-' || text.front() == '.') {
    double number = 0;
    // SimpleAtod alone would take "1e3", hex floats and "nan".
    if (text.find_first_not_of("0123456789.-") == absl::string_view::npos &&
        absl::SimpleAtod(text, &number)) {
      return PlainNumber(number, now);
    }
    if (std::optional<absl::Duration> units = ParseUnitDuration(text)) return units;
    absl::Time time;
    std::string error;
    if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return Bounded(time - now);
    return std::nullopt;
  }
  if (std::optional<absl::Time> date = ParseHttpDate(text)) return Bounded(*date - now);
  return std::nullopt;
}

std::optional<int64_t> ParseLimit(absl::string_view text, bool positive) {
  std::string digits;
  for (char c : absl::StripAsciiWhitespace(text)) {
    if (IsDigit(c)) {
      digits.push_back(c);
    } else if (c == '.') {
      break;  // "9999.5": what is there is whole tokens
    } else if (c != ',' && c != '_' && c != ' ') {
      return std::nullopt;  // also a sign: -1 means unknown
    }
  }
  int64_t value = 0;
  if (digits.size() > 18 || !absl::SimpleAtoi(digits, &value)) return std::nullopt;
  if (positive && value == 0) return std::nullopt;
  return value;
}

absl::Time ServerTime(const http::Headers& headers, absl::Time local) {
  const std::string* date = http::FindHeader(headers, "date");
  if (date == nullptr) return local;
  return ParseHttpDate(*date).value_or(local);
}

std::optional<absl::Duration> ParseRetryAfter(const http::Headers& headers, absl::Time local) {
  if (const std::string* ms = http::FindHeader(headers, "retry-after-ms")) {
    double value = 0;
    if (ms->find_first_not_of("0123456789. ") == std::string::npos &&
        absl::SimpleAtod(*ms, &value)) {
      return Bounded(absl::Milliseconds(value));
    }
  }
  if (const std::string* after = http::FindHeader(headers, "retry-after")) {
    return ParseReset(*after, ServerTime(headers, local));
  }
  return std::nullopt;
}

namespace {

// One family of header names: `limit`, `remaining` and `reset` of one dimension.
struct HeaderNames {
  RateHeaders::Limit RateHeaders::* target;
  absl::string_view limit, remaining, reset;
};

// In order of preference: a later row fills only what no earlier one gave (quota.md 1.2).
// x-ratelimit-*-requests may mean per day at OpenAI and does at Groq; a caller can see it by the
// size of reset. OpenRouter's plain X-RateLimit-* count requests, Mistral's ratelimitbysize-*
// tokens.
constexpr HeaderNames kNames[] = {
    {&RateHeaders::requests, "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
     "x-ratelimit-reset-requests"},
    {&RateHeaders::tokens, "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
     "x-ratelimit-reset-tokens"},
    {&RateHeaders::tokens, "x-ratelimit-limit-project-tokens",
     "x-ratelimit-remaining-project-tokens", "x-ratelimit-reset-project-tokens"},
    {&RateHeaders::input_tokens, "x-ratelimit-limit-input-tokens",
     "x-ratelimit-remaining-input-tokens", "x-ratelimit-reset-input-tokens"},
    {&RateHeaders::output_tokens, "x-ratelimit-limit-output-tokens",
     "x-ratelimit-remaining-output-tokens", "x-ratelimit-reset-output-tokens"},
    {&RateHeaders::requests, "anthropic-ratelimit-requests-limit",
     "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"},
    {&RateHeaders::tokens, "anthropic-ratelimit-tokens-limit",
     "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"},
    {&RateHeaders::input_tokens, "anthropic-ratelimit-input-tokens-limit",
     "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"},
    {&RateHeaders::output_tokens, "anthropic-ratelimit-output-tokens-limit",
     "anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"},
    {&RateHeaders::tokens, "ratelimitbysize-limit", "ratelimitbysize-remaining",
     "ratelimitbysize-reset"},
    {&RateHeaders::tokens, "x-ratelimitbysize-limit-minute", "x-ratelimitbysize-remaining-minute",
     ""},
    {&RateHeaders::requests, "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"},
};

}  // namespace

RateHeaders ParseRateHeaders(const http::Headers& headers, absl::Time local) {
  RateHeaders rate;
  const absl::Time now = ServerTime(headers, local);
  for (const HeaderNames& names : kNames) {
    RateHeaders::Limit& target = rate.*names.target;
    if (target.limit || target.remaining || target.reset) continue;
    RateHeaders::Limit found;
    if (const std::string* text = http::FindHeader(headers, names.limit)) {
      found.limit = ParseLimit(*text, /*positive=*/true);
      // Azure and OpenAI have sent limit -1 with remaining 0: no limit known, so no level either.
      if (!found.limit) continue;
    }
    if (const std::string* text = http::FindHeader(headers, names.remaining)) {
      found.remaining = ParseLimit(*text, /*positive=*/false);
    }
    if (const std::string* text = http::FindHeader(headers, names.reset)) {
      found.reset = ParseReset(*text, now);
    }
    target = found;
  }
  return rate;
}

}  // namespace headrace::provider
