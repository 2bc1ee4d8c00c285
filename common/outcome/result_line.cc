#include "common/outcome/result_line.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "absl/time/civil_time.h"
#include "common/base/crc32c.h"
#include "common/base/json_writer.h"

namespace headrace {
namespace {

// The end of every line: ,"crc":"1a2b3c4d"}} (the last brace closes the line, the one before it the
// headrace object).
constexpr absl::string_view kCrcKey = ",\"crc\":\"";
constexpr size_t kCrcDigits = 8;
constexpr absl::string_view kLineEnd = "\"}}";
constexpr size_t kTailBytes = kCrcKey.size() + kCrcDigits + kLineEnd.size();

// The start of our object. In a JSON string every quote is escaped, so these bytes are never part
// of a model's text; an answer may have such a key, but only before ours, which is the last.
constexpr absl::string_view kHeadraceKey = ",\"headrace\":";
constexpr absl::string_view kItemKey = "{\"item\":";
constexpr absl::string_view kStatusKey = ",\"status\":\"";

constexpr absl::string_view kOk = "ok";

// Everything of a line but its texts; chosen above the longest possible sum of the fixed parts.
constexpr size_t kFixedBytes = 768;

void Append(absl::string_view text, std::string* out) { out->append(text.data(), text.size()); }

template <typename Int>
void AppendInt(Int value, std::string* out) {
  char buffer[24];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out->append(buffer, end.ptr);
}

template <typename Int>
void AppendIntField(absl::string_view key, Int value, std::string* out) {
  Append(key, out);
  AppendInt(value, out);
}

void AppendStringField(absl::string_view key, absl::string_view value, std::string* out) {
  Append(key, out);
  AppendJsonString(value, out);
}

// `digits` decimal digits with leading zeros.
void AppendPadded(int64_t value, int digits, std::string* out) {
  char buffer[8];
  for (int i = digits - 1; i >= 0; --i, value /= 10)
    buffer[i] = static_cast<char>('0' + value % 10);
  out->append(buffer, digits);
}

// Milliseconds with microseconds after the point; negative durations (a clock's fault) are 0.
void AppendMs(absl::string_view key, absl::Duration duration, std::string* out) {
  const int64_t us = std::max<int64_t>(0, absl::ToInt64Microseconds(duration));
  Append(key, out);
  AppendInt(us / 1000, out);
  out->push_back('.');
  AppendPadded(us % 1000, 3, out);
}

void AppendMs(absl::string_view key, const std::optional<absl::Duration>& duration,
              std::string* out) {
  if (duration.has_value()) {
    AppendMs(key, *duration, out);
  } else {
    Append(key, out);
    Append("null", out);
  }
}

// absl::FormatTime takes a microsecond, most of a line's budget.
void AppendTime(absl::string_view key, absl::Time time, std::string* out) {
  const absl::TimeZone::CivilInfo civil = absl::UTCTimeZone().At(time);
  Append(key, out);
  out->push_back('"');
  AppendPadded(std::clamp<int64_t>(civil.cs.year(), 0, 9999), 4, out);
  out->push_back('-');
  AppendPadded(civil.cs.month(), 2, out);
  out->push_back('-');
  AppendPadded(civil.cs.day(), 2, out);
  out->push_back('T');
  AppendPadded(civil.cs.hour(), 2, out);
  out->push_back(':');
  AppendPadded(civil.cs.minute(), 2, out);
  out->push_back(':');
  AppendPadded(civil.cs.second(), 2, out);
  out->push_back('.');
  AppendPadded(absl::ToInt64Milliseconds(civil.subsecond), 3, out);
  Append("Z\"", out);
}

// A line end between the tokens of a body would end the record in the middle; JSON allows a space
// in its place.
void AppendBody(absl::string_view body, std::string* out) {
  const size_t start = out->size();
  Append(body.empty() ? "null" : body, out);
  if (body.find('\n') == absl::string_view::npos && body.find('\r') == absl::string_view::npos) {
    return;
  }
  for (size_t i = start; i < out->size(); ++i) {
    if ((*out)[i] == '\n' || (*out)[i] == '\r') (*out)[i] = ' ';
  }
}

void AppendResponse(const ResultLine& line, std::string* out) {
  if (line.http_status == 0) {
    Append(",\"response\":null", out);
    return;
  }
  AppendIntField(",\"response\":{\"status_code\":", line.http_status, out);
  AppendStringField(",\"request_id\":", line.request_id, out);
  Append(",\"body\":", out);
  AppendBody(line.body, out);
  out->push_back('}');
}

void AppendError(const ResultLine& line, std::string* out) {
  if (line.error_class == ErrorClass::kNone) {
    Append(",\"error\":null", out);
    return;
  }
  AppendStringField(",\"error\":{\"code\":", ErrorClassName(line.error_class), out);
  AppendStringField(",\"message\":", line.error_message, out);
  out->push_back('}');
}

// Counts that the provider did not report are left out, so that nobody adds up zeros.
void AppendUsage(const Usage& usage, std::string* out) {
  Append(",\"usage\":{", out);
  const size_t start = out->size();
  const auto field = [&](absl::string_view name, const std::optional<int64_t>& count) {
    if (!count.has_value()) return;
    Append(out->size() == start ? "\"" : ",\"", out);
    Append(name, out);
    Append("\":", out);
    AppendInt(*count, out);
  };
  field("prompt_tokens", usage.prompt_tokens);
  field("completion_tokens", usage.completion_tokens);
  field("cached_tokens", usage.cached_tokens);
  field("cache_write_tokens", usage.cache_write_tokens);
  field("reasoning_tokens", usage.reasoning_tokens);
  out->push_back('}');
}

void AppendTimes(const ItemTimes& times, std::string* out) {
  AppendMs(",\"ms\":{\"queue\":", times.queue, out);
  AppendMs(",\"connect\":", times.connect, out);
  AppendMs(",\"first_byte\":", times.first_byte, out);
  AppendMs(",\"first_token\":", times.first_token, out);
  AppendMs(",\"network\":", times.network, out);
  AppendMs(",\"total\":", times.total, out);
  AppendMs(",\"read_tick\":", times.read_tick, out);
  out->push_back('}');
}

void AppendHeadrace(const ResultLine& line, std::string* out) {
  Append(kHeadraceKey, out);
  Append(kItemKey, out);
  AppendInt(line.item.value(), out);
  AppendIntField(",\"row\":", line.row.value(), out);
  AppendStringField(",\"model\":", line.model, out);
  Append(kStatusKey, out);
  Append(line.error_class == ErrorClass::kNone ? kOk : ErrorClassName(line.error_class), out);
  AppendStringField("\",\"finish_reason\":", line.finish_reason, out);
  AppendIntField(",\"attempts\":", line.attempts, out);
  AppendIntField(",\"possibly_billed\":", line.possibly_billed, out);
  AppendIntField(",\"pass\":", line.pass, out);
  AppendUsage(line.usage, out);
  AppendTimes(line.times, out);
  AppendStringField(",\"worker\":", line.worker, out);
  AppendIntField(",\"batch\":", line.batch.value(), out);
  AppendTime(",\"started\":", line.started, out);
  if (!line.expected.empty()) AppendStringField(",\"expected\":", line.expected, out);
  if (!line.flags.empty()) AppendStringField(",\"flags\":", line.flags, out);
}

void AppendCrc(uint32_t crc, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  char digits[kCrcDigits];
  for (size_t i = kCrcDigits; i-- > 0; crc >>= 4) digits[i] = kHex[crc & 0xf];
  Append(kCrcKey, out);
  out->append(digits, kCrcDigits);
  Append(kLineEnd, out);
}

std::optional<uint32_t> ReadCrc(absl::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) {
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<uint32_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// From the last brace that follows kHeadraceKey to the end; empty when there is none. A brace at a
// time, because rfind() compares at every byte and there are millions of lines.
absl::string_view FindHeadraceObject(absl::string_view text) {
  absl::string_view before = text;
  while (!before.empty()) {
    const void* const brace = memrchr(before.data(), '{', before.size());
    if (brace == nullptr) break;
    const auto at = static_cast<size_t>(static_cast<const char*>(brace) - before.data());
    before = before.substr(0, at);
    if (absl::EndsWith(before, kHeadraceKey)) return text.substr(at);
  }
  return absl::string_view();
}

// The key, from a line whose CRC is right, up to (not including) its crc key.
absl::StatusOr<ResultLineKey> ReadKey(absl::string_view checked) {
  absl::string_view object = FindHeadraceObject(checked);
  if (!absl::ConsumePrefix(&object, kItemKey)) return absl::DataLossError("no headrace object");

  uint64_t item = 0;
  const char* const end = object.data() + object.size();
  const std::from_chars_result number = std::from_chars(object.data(), end, item);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != ',') {
    return absl::DataLossError("no item number");
  }
  size_t status_start = object.find(kStatusKey);
  if (status_start == absl::string_view::npos) return absl::DataLossError("no status");
  status_start += kStatusKey.size();
  const size_t status_end = object.find('"', status_start);
  if (status_end == absl::string_view::npos) return absl::DataLossError("no status");
  const absl::string_view status = object.substr(status_start, status_end - status_start);

  ResultLineKey key;
  key.item = ItemId(item);
  if (status != kOk) key.error_class = ErrorClassFromName(status).value_or(ErrorClass::kInternal);
  return key;
}

}  // namespace

void AppendResultLine(const ResultLine& line, std::string* out) {
  const size_t start = out->size();
  out->reserve(start + kFixedBytes + line.body.size() + line.custom_id.size() +
               line.expected.size() + line.error_message.size() + line.model.size());
  AppendIntField("{\"id\":\"hr-", line.item.value(), out);
  AppendStringField("\",\"custom_id\":", line.custom_id, out);
  AppendResponse(line, out);
  AppendError(line, out);
  AppendHeadrace(line, out);
  AppendCrc(Crc32c(absl::string_view(*out).substr(start)), out);
}

absl::StatusOr<ResultLineKey> CheckResultLine(absl::string_view line) {
  if (line.size() < kTailBytes) return absl::DataLossError("the line is cut");
  const absl::string_view checked = line.substr(0, line.size() - kTailBytes);
  const absl::string_view tail = line.substr(checked.size());
  if (tail.substr(0, kCrcKey.size()) != kCrcKey ||
      tail.substr(kCrcKey.size() + kCrcDigits) != kLineEnd) {
    return absl::DataLossError("the line is cut or not of this format");
  }
  const std::optional<uint32_t> crc = ReadCrc(tail.substr(kCrcKey.size(), kCrcDigits));
  if (!crc.has_value() || *crc != Crc32c(checked)) {
    return absl::DataLossError("the line's checksum is wrong");
  }
  return ReadKey(checked);
}

}  // namespace headrace
