#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/job_flags.h"
#include "coordinator/job/validate.h"

namespace headrace {
namespace {

ExitCode Validate(const JobFlags& flags, bool yaml) {
  const absl::StatusOr<JobConfig> job = MakeJob(flags);
  if (!job.ok()) return Fail("validate", job.status());
  ValidateOptions options;
  std::error_code error;
  options.scratch_dir = std::filesystem::temp_directory_path(error).string();
  const Validation validation = ValidateJob(*job, options);
  std::printf(
      "%s", (yaml && validation.ok() ? ToYaml(*job) : RenderValidation(*job, validation)).c_str());
  if (validation.ok()) return ExitCode::kOk;
  return validation.credentials_missing ? ExitCode::kCredentials : ExitCode::kUsage;
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
