// YAML values as JSON text and back, for the `params` of a model.
#ifndef HEADRACE_COORDINATOR_JOB_YAML_JSON_H_
#define HEADRACE_COORDINATOR_JOB_YAML_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/job/yaml_fields.h"
#include "yaml-cpp/yaml.h"

namespace headrace {

// Bounds of one `params` value (chosen, not measured). An alias counts each time it is used.
inline constexpr int kMaxParamDepth = 64;
inline constexpr size_t kMaxParamBytes = 256 << 10;
inline constexpr size_t kMaxParamKeyBytes = 256;

// `node` as JSON on one line: keys in the order of the file, plain scalars typed by the core schema
// of YAML 1.2 (section 10.3.2), quoted ones text, numbers with the digits that they were written
// with. InvalidArgument, with file, line and field, on .inf and .nan, keys that are not scalars or
// are given twice, foreign tags, and values beyond the bounds above.
absl::StatusOr<std::string> YamlToJson(const YamlDocument& document, const YAML::Node& node,
                                       absl::string_view path);

// `json` in the one form that YamlToJson gives: `{"a": 1, "b": ["x", null]}`, with a space after
// colons and commas. InvalidArgument, with a position in words, when it is no JSON object, or
// beyond the bounds.
absl::StatusOr<std::string> CanonicalJsonObject(absl::string_view json);

// True when the object `json`, which must be canonical, has the key itself, not in a nested value.
bool HasTopLevelKey(absl::string_view json, absl::string_view key);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_YAML_JSON_H_
