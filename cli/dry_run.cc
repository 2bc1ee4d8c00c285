#include "cli/dry_run.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "cli/command.h"
#include "cli/run/dataset_copy.h"
#include "coordinator/job/validate.h"

namespace headrace {

ExitCode DryRun(const JobConfig& job, const std::string& job_file, bool yaml) {
  ValidateOptions options;
  options.job_file = job_file;
  std::error_code error;
  options.scratch_dir = std::filesystem::temp_directory_path(error).string();
  const absl::StatusOr<std::unique_ptr<PassingCopy>> copy = PassingCopy::Make(job);
  if (!copy.ok()) return Fail("validate", copy.status());
  const Validation validation = ValidateJob((*copy)->job(), options);
  const std::string text =
      yaml && validation.ok() ? ToYaml(job) : RenderValidation(job, validation);
  std::printf("%s", text.c_str());
  if (validation.ok()) return ExitCode::kOk;
  return validation.credentials_missing ? ExitCode::kCredentials : ExitCode::kUsage;
}

}  // namespace headrace
