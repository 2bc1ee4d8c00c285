// Flags whose values are durations, counts or rates. A bad value is a usage error that names the
// flag.
#ifndef HEADRACE_CLI_FLAG_TYPES_H_
#define HEADRACE_CLI_FLAG_TYPES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace headrace {

// A flag whose text `parse` accepts or refuses. It runs once for each time that the flag is given.
CLI::Option* AddParsed(CLI::App* app, const std::string& names,
                       std::function<absl::Status(const std::string&)> parse,
                       const std::string& help);

// A flag whose text `parse` turns into a StatusOr of what *out takes. *out keeps its value when the
// flag is not given; so for the others.
template <typename Out, typename Parse>
CLI::Option* AddValue(CLI::App* app, const std::string& names, Out* out, Parse parse,
                      const std::string& help) {
  return AddParsed(
      app, names,
      [out, parse](const std::string& text) {
        auto value = parse(text);
        if (value.ok()) *out = *std::move(value);
        return value.status();
      },
      help);
}

// "120s".
CLI::Option* AddDuration(CLI::App* app, const std::string& names, absl::Duration* out,
                         const std::string& help);
// "5M", at least `minimum`.
CLI::Option* AddCount(CLI::App* app, const std::string& names, int64_t* out,
                      const std::string& help, int64_t minimum = 0);

}  // namespace headrace

#endif  // HEADRACE_CLI_FLAG_TYPES_H_
