#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/version.h"
#include "common/base/json_writer.h"

namespace headrace {
namespace {

ExitCode PrintVersion(bool json) {
  if (!json) {
    std::printf("headrace %s (%s)\n", Version(), Compiler());
    return ExitCode::kOk;
  }
  std::string out;
  JsonWriter writer(&out);
  writer.BeginObject();
  writer.Key("version").String(Version());
  writer.Key("compiler").String(Compiler());
  writer.EndObject();
  std::printf("%s\n", out.c_str());
  return ExitCode::kOk;
}

}  // namespace

void AddVersionCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand("version", "Print the version");
  auto json = std::make_shared<bool>(false);  // owned by the flag and by the callback
  command->add_flag("--json", *json, "As a JSON object");
  command->callback([=] { chosen->body = [json] { return PrintVersion(*json); }; });
}

}  // namespace headrace
