#include <memory>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/dry_run.h"
#include "cli/job_flags.h"

namespace headrace {
namespace {

ExitCode Validate(const JobFlags& flags, bool yaml) {
  const absl::StatusOr<JobConfig> job = MakeJob(flags);
  if (!job.ok()) return Fail("validate", job.status());
  return DryRun(*job, JobFileName(flags), yaml);
}

}  // namespace

void AddValidateCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command =
      app->add_subcommand("validate", "Check a job, its keys and every row of its dataset");
  auto flags = std::make_shared<JobFlags>();  // owned by the flags and by the callback, as `yaml`
  auto yaml = std::make_shared<bool>(false);
  AddJobFlags(command, flags.get());
  command->add_flag("--yaml", *yaml, "Print the job with its defaults instead, if it is good");
  command->callback([=] { chosen->body = [flags, yaml] { return Validate(*flags, *yaml); }; });
}

}  // namespace headrace
