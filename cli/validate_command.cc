#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/job_flags.h"

namespace headrace {
namespace {

ExitCode Validate(const JobFlags& flags) {
  const absl::StatusOr<JobConfig> job = MakeJob(flags);
  if (!job.ok()) return Fail("validate", job.status());
  for (const std::string& notice : JobNotices(*job)) {
    std::fprintf(stderr, "headrace validate: note: %s\n", notice.c_str());
  }
  std::printf("%s", ToYaml(*job).c_str());
  return ExitCode::kOk;
}

}  // namespace

void AddValidateCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand("validate", "Check a job and its dataset");
  auto flags = std::make_shared<JobFlags>();  // owned by the flags and by the callback
  AddJobFlags(command, flags.get());
  command->callback([=] { chosen->body = [flags] { return Validate(*flags); }; });
}

}  // namespace headrace
