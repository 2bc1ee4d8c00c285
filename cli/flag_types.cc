#include "cli/flag_types.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace headrace {

CLI::Option* AddParsed(CLI::App* app, const std::string& names,
                       std::function<absl::Status(const std::string&)> parse,
                       const std::string& help) {
  CLI::Option* option = app->add_option(
      names,
      [names, parse = std::move(parse)](const CLI::results_t& values) {
        for (const std::string& value : values) {
          const absl::Status status = parse(value);
          if (!status.ok()) throw CLI::ValidationError(names, std::string(status.message()));
        }
        return true;
      },
      help);
  return option;
}

CLI::Option* AddDuration(CLI::App* app, const std::string& names, absl::Duration* out,
                         const std::string& help) {
  return AddValue(app, names, out, ParseDuration, help)->type_name("DUR");
}

CLI::Option* AddCount(CLI::App* app, const std::string& names, int64_t* out,
                      const std::string& help, int64_t minimum) {
  return AddParsed(
             app, names,
             [out, minimum](const std::string& text) {
               absl::StatusOr<int64_t> value = ParseCount(text);
               if (!value.ok()) return value.status();
               if (*value < minimum) {
                 return absl::InvalidArgumentError(absl::StrCat("must be at least ", minimum));
               }
               *out = *value;
               return absl::OkStatus();
             },
             help)
      ->type_name("N");
}

}  // namespace headrace
