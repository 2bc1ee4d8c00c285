#include "cli/run_job.h"

#include <cstdio>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/run/local_run.h"
#include "cli/run/redis_flag.h"
#include "cli/run/run_report.h"
#include "common/base/log.h"
#include "coordinator/job/schema_check.h"
#include "coordinator/job/validate.h"

namespace headrace {
namespace {

// A key that cannot be used is found before the run directory is made.
absl::Status CheckKeys(const JobConfig& job) {
  for (const ModelJob& model : job.models) {
    const KeyCheck key = CheckKey(model.api_key, ValidateOptions());
    if (!key.notice.empty()) HR_LOG(kWarning) << "model " << model.label << ": " << key.notice;
    if (key.status.ok()) continue;
    return absl::UnauthenticatedError(
        absl::StrCat("model ", model.label, ": api_key: ", key.status.message()));
  }
  const KeyCheck key = CheckKey(job.dataset.api_key, ValidateOptions());
  if (!key.notice.empty()) HR_LOG(kWarning) << "dataset: " << key.notice;
  if (!key.status.ok()) {
    return absl::UnauthenticatedError(absl::StrCat("dataset.api_key: ", key.status.message()));
  }
  return absl::OkStatus();
}

// A schema that the provider would refuse is found before a call is paid for.
absl::Status CheckSchemas(const RunRequest& request) {
  const SchemaFindings findings = CheckJobSchemas(request.job, request.job_file);
  for (const std::string& notice : findings.notices) HR_LOG(kWarning) << notice;
  if (findings.errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(findings.errors, "\n"));
}

}  // namespace

ExitCode RunJob(const RunRequest& request) {
  if (!request.admin.empty()) {
    return Fail("run", absl::InvalidArgumentError("--admin: this build has no admin server"));
  }
  const absl::Status keys = CheckKeys(request.job);
  if (!keys.ok()) return Fail("run", keys);
  const absl::Status schemas = CheckSchemas(request);
  if (!schemas.ok()) return Fail("run", schemas);
  const absl::Status redis = CheckRedisFlag(request.redis);
  if (!redis.ok()) return Fail("run", redis);
  LocalRunOptions options;
  options.redis = request.redis;
  options.job = request.job;
  options.progress = request.progress;
  options.no_color = request.no_color;
  const absl::StatusOr<LocalRunEnd> run = RunLocally(options);
  if (!run.ok()) return Fail("run", run.status());
  std::printf("%s", RenderRunEnd(request.job, run->summary).c_str());
  return run->end.exit_code;
}

}  // namespace headrace
