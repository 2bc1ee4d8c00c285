// Reads the input as a job file. A job that can be finished survives being written and read back.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "common/base/utf8.h"
#include "coordinator/job/job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<JobConfig> job = ParseJob(text, "f");
  if (!job.ok()) {
    HR_CHECK(job.status().code() == absl::StatusCode::kInvalidArgument);
    HR_CHECK(IsValidUtf8(job.status().message()));
    return 0;
  }
  if (!FinishJob(&*job).ok()) return 0;
  const std::string yaml = ToYaml(*job);
  absl::StatusOr<JobConfig> back = ParseJob(yaml, "back");
  HR_CHECK(back.ok()) << back.status() << "\n" << yaml;
  HR_CHECK(FinishJob(&*back).ok());
  HR_CHECK(*back == *job) << yaml;
  return 0;
}
