// What a subcommand of `headrace` is: flags, and a body that runs when they have been read.
#ifndef HEADRACE_CLI_COMMAND_H_
#define HEADRACE_CLI_COMMAND_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/exit_code.h"

namespace CLI {
class App;
}

namespace headrace {

// Flags before or after any subcommand.
struct GlobalFlags {
  bool no_color = false;
};

// Set by the subcommand that was named.
struct ChosenCommand {
  std::function<ExitCode()> body;
};

// Each adds one subcommand to `app`. `globals` and `chosen` outlive the app.
void AddRunCommand(CLI::App* app, const GlobalFlags* globals, ChosenCommand* chosen);
void AddSelftestCommand(CLI::App* app, ChosenCommand* chosen);
void AddProbeCommand(CLI::App* app, ChosenCommand* chosen);
void AddSimulateCommand(CLI::App* app, ChosenCommand* chosen);
void AddValidateCommand(CLI::App* app, ChosenCommand* chosen);
void AddEstimateCommand(CLI::App* app, ChosenCommand* chosen);
void AddCoordinatorCommand(CLI::App* app, const GlobalFlags* globals, ChosenCommand* chosen);
// status, jobs, submit and cancel.
void AddOperatorCommands(CLI::App* app, ChosenCommand* chosen);
void AddWorkerCommand(CLI::App* app, ChosenCommand* chosen);
void AddVersionCommand(CLI::App* app, ChosenCommand* chosen);

// Prints "headrace COMMAND: message" on standard error and gives the code of `status`.
ExitCode Fail(absl::string_view command, const absl::Status& status);

}  // namespace headrace

#endif  // HEADRACE_CLI_COMMAND_H_
