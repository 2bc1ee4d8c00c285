#include "cli/dry_run.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "coordinator/job/validate.h"

namespace headrace {

ExitCode DryRun(const JobConfig& job, const std::string& job_file, bool yaml) {
  ValidateOptions options;
  options.job_file = job_file;
  std::error_code error;
  options.scratch_dir = std::filesystem::temp_directory_path(error).string();
  const Validation validation = ValidateJob(job, options);
  const std::string text =
      yaml && validation.ok() ? ToYaml(job) : RenderValidation(job, validation);
  std::printf("%s", text.c_str());
  if (validation.ok()) return ExitCode::kOk;
  return validation.credentials_missing ? ExitCode::kCredentials : ExitCode::kUsage;
}

}  // namespace headrace
