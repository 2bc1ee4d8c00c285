// "KEY=JSON" flags, and JSON objects that they change.
#ifndef HEADRACE_CLI_JSON_PARAM_H_
#define HEADRACE_CLI_JSON_PARAM_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace {

// Appends the key and the JSON text of `text`. InvalidArgument without "=", without a key, or when
// the value is no JSON.
absl::Status ParseParam(absl::string_view text,
                        std::vector<std::pair<std::string, std::string>>* params);

// `object` with member `key` set to `value_json`: in its old place, or at the end. Other members
// keep the text that they have. InvalidArgument when `object` is no JSON object; empty counts as
// {}.
absl::StatusOr<std::string> SetJsonMember(absl::string_view object, absl::string_view key,
                                          absl::string_view value_json);

}  // namespace headrace

#endif  // HEADRACE_CLI_JSON_PARAM_H_
