// Writes JSON into a string, without a document in memory: for the hot path and for every line that
// headrace itself produces.
#ifndef HEADRACE_COMMON_BASE_JSON_WRITER_H_
#define HEADRACE_COMMON_BASE_JSON_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace {

// Appends one JSON value to *out. The output is always valid UTF-8 JSON on one line: control
// characters and U+2028/9 are escaped, invalid UTF-8 becomes U+FFFD, NaN and infinities become
// null.
//
//   JsonWriter json(&out);
//   json.BeginObject();
//   json.Key("id").String(id);
//   json.Key("usage").Raw(usage_json);
//   json.EndObject();
class JsonWriter {
 public:
  // *out must outlive the writer.
  explicit JsonWriter(std::string* out) : out_(out) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(absl::string_view key);

  JsonWriter& String(absl::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // Shortest text that reads back as the same double.
  JsonWriter& Double(double value);
  // Decimal with `digits` after the point, for milliseconds and money.
  JsonWriter& Fixed(double value, int digits);
  // `json` must be one valid JSON value without line ends; it is copied as it is.
  JsonWriter& Raw(absl::string_view json);

 private:
  void Separate();

  std::string* const out_;
  bool need_comma_ = false;
};

// Appends `value` as a JSON string with quotes, by the rules above.
void AppendJsonString(absl::string_view value, std::string* out);

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_JSON_WRITER_H_
