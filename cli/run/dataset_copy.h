// A dataset that is a URL, as a file on this machine.
#ifndef HEADRACE_CLI_RUN_DATASET_COPY_H_
#define HEADRACE_CLI_RUN_DATASET_COPY_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/job/job.h"

namespace headrace {

// What `dataset` says, with the path of a file instead of a URL. A path is given back as it is.
//
// A URL is downloaded, once, to `dir`/dataset-HASH, whole or not at all; HASH is of the URL. Where
// that file is, it is taken as it is and nothing is asked of the network, so that a run goes on
// with the bytes that it began with; a file that somebody changed is refused by its SHA-256, like
// any dataset. Beside it, dataset-HASH.json says where it is from: url, bytes, sha256, etag,
// last_modified. Two processes may do this at the same time.
//
// At most 64 GiB; redirects, TLS and repeats are those of http::FetchToFile. The key of
// `dataset.api_key` goes to the URL's own host alone. Blocks, for as long as a download takes.
// Errors: as of FetchToFile, and Unauthenticated for a key that cannot be read.
absl::StatusOr<DatasetJob> CopyDataset(const DatasetJob& dataset, const std::string& dir);
// The same; ends with Cancelled, within about a second, once `stopped` is true.
absl::StatusOr<DatasetJob> CopyDatasetUnless(const std::atomic<bool>& stopped,
                                             const DatasetJob& dataset, const std::string& dir);

// For a look at a dataset: takes the copy of the run directory `run_dir`, else makes one in the
// system's directory for temporary files and removes it again.
class PassingCopy {
 public:
  static absl::StatusOr<std::unique_ptr<PassingCopy>> Make(const JobConfig& job);
  ~PassingCopy();
  PassingCopy(const PassingCopy&) = delete;
  PassingCopy& operator=(const PassingCopy&) = delete;

  // The job, with the path of a file.
  const JobConfig& job() const { return job_; }

 private:
  PassingCopy() = default;

  JobConfig job_;
  std::string scratch_;  // empty: nothing to remove
};

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_DATASET_COPY_H_
