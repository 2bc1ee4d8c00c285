// Everything that can be found wrong with a job before anything is sent: `headrace validate`, and
// the first step of every run. Pure but for reading the dataset and the files of keys.
#ifndef HEADRACE_COORDINATOR_JOB_VALIDATE_H_
#define HEADRACE_COORDINATOR_JOB_VALIDATE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/secret.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/job/job.h"

namespace headrace {

// What would go out for one row: made by the worker's codec, which the coordinator does not know.
struct RequestPreview {
  std::string url;
  std::string body;  // never headers: there the key would be
};

struct ValidateOptions {
  std::string job_file;     // its name, for messages; empty: the job came from flags
  std::string scratch_dir;  // for many ids, see Dataset::Scan()
  // The value of an environment variable; empty: not set. Default: getenv.
  std::function<std::optional<std::string>(const std::string& name)> get_env;
  // InvalidArgument when the row cannot be sent to the model. Without it nothing is previewed.
  std::function<absl::StatusOr<RequestPreview>(const ModelJob&, const RenderedRow&)> preview;
};

// Where a model's key is and whether it can be used; never the key.
struct KeyCheck {
  std::string source;   // "environment variable NAME", "file PATH", or "none"
  absl::Status status;  // FailedPrecondition: not there, or with bytes that no header can have
  std::string notice;   // white space was dropped, or the key is empty
};

// `env` and file contents are looked at, their values never repeated.
KeyCheck CheckKey(const ApiKeySource& source, const ValidateOptions& options);

// The key itself, without the white space around it; an empty one when the source names none or an
// empty one. Unauthenticated, without the key, when CheckKey would not take it.
absl::StatusOr<Secret> ReadCheckedKey(const ApiKeySource& source, const ValidateOptions& options);

struct Validation {
  std::vector<std::string> errors;   // the job cannot run
  std::vector<std::string> notices;  // it can, but perhaps not as meant
  bool credentials_missing = false;  // an error is about a key: exit code 4 instead of 2
  std::optional<DatasetInfo> dataset;
  std::optional<RenderedRow> first_row;  // the first that gives a request
  struct ModelCheck {
    std::string label;
    std::string key;  // KeyCheck::source, and whether it is there
    std::optional<RequestPreview> preview;
  };
  std::vector<ModelCheck> models;

  bool ok() const { return errors.empty(); }
};

// `job` must be finished.
Validation ValidateJob(const JobConfig& job, const ValidateOptions& options);

// For people, several lines: verdict, dataset, keys, the first request of each model.
std::string RenderValidation(const JobConfig& job, const Validation& validation);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_VALIDATE_H_
