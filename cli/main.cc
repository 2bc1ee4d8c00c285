// headrace: the command line. It reads flags, calls the libraries, and turns what they return into
// text and an exit code.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/flag_types.h"
#include "common/base/log.h"

namespace headrace {
namespace {

absl::Status ParseLogLevel(const std::string& text) {
  if (text == "debug") {
    SetLogLevel(LogLevel::kDebug);
  } else if (text == "info") {
    SetLogLevel(LogLevel::kInfo);
  } else if (text == "warning") {
    SetLogLevel(LogLevel::kWarning);
  } else if (text == "error") {
    SetLogLevel(LogLevel::kError);
  } else {
    return absl::InvalidArgumentError("is none of debug, info, warning, error");
  }
  return absl::OkStatus();
}

absl::Status ParseLogFormat(const std::string& text) {
  if (text == "text") {
    SetLogFormat(LogFormat::kText);
  } else if (text == "json") {
    SetLogFormat(LogFormat::kJson);
  } else {
    return absl::InvalidArgumentError("is neither text nor json");
  }
  return absl::OkStatus();
}

void AddGlobalFlags(CLI::App* app, GlobalFlags* globals) {
  AddParsed(app, "--log-level", ParseLogLevel,
            "Least level of log lines: debug, info, warning, error")
      ->type_name("LEVEL");
  AddParsed(app, "--log-format", ParseLogFormat, "Form of log lines: text, json")
      ->type_name("FORMAT");
  app->add_flag("--no-color", globals->no_color, "No colours, as with NO_COLOR");
}

ExitCode Main(int argc, char** argv) {
  CLI::App app(
      "headrace runs very large LLM evaluations against rate-limited providers: it keeps the "
      "quota full, never over it, and loses nothing.",
      "headrace");
  GlobalFlags globals;
  ChosenCommand chosen;
  app.fallthrough();
  app.require_subcommand(0, 1);  // none is told below, so that a wrong word is told by itself
  app.footer(ExitCodeTable());
  AddGlobalFlags(&app, &globals);
  AddRunCommand(&app, &globals, &chosen);
  AddSelftestCommand(&app, &chosen);
  AddProbeCommand(&app, &chosen);
  AddSimulateCommand(&app, &chosen);
  AddValidateCommand(&app, &chosen);
  AddEstimateCommand(&app, &chosen);
  AddCoordinatorCommand(&app, &globals, &chosen);
  AddWorkerCommand(&app, &chosen);
  AddOperatorCommands(&app, &chosen);
  AddVersionCommand(&app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // Prints help on standard output and errors on standard error.
    return app.exit(e) == 0 ? ExitCode::kOk : ExitCode::kUsage;
  }
  if (!chosen.body) {
    std::fprintf(stderr, "headrace: name a subcommand\n\n%s", app.help().c_str());
    return ExitCode::kUsage;
  }
  return chosen.body();
}

}  // namespace

ExitCode Fail(absl::string_view command, const absl::Status& status) {
  std::fprintf(stderr, "headrace %.*s: %.*s\n", static_cast<int>(command.size()), command.data(),
               static_cast<int>(status.message().size()), status.message().data());
  return ExitCodeFor(status);
}

}  // namespace headrace

int main(int argc, char** argv) {
  // A reader that went away is seen by write(2), which callers check.
  std::signal(SIGPIPE, SIG_IGN);
  return static_cast<int>(headrace::Main(argc, argv));
}
