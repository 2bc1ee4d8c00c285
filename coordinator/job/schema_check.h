// The schemas for structured output in a job, and in the rows of an OpenAI Batch file, before
// anything is sent (cases H5, H8, H9). Pure.
#ifndef HEADRACE_COORDINATOR_JOB_SCHEMA_CHECK_H_
#define HEADRACE_COORDINATOR_JOB_SCHEMA_CHECK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/job/job.h"

namespace headrace {

// Sentences for people, each with file, model and the path of the fault.
struct SchemaFindings {
  std::vector<std::string> errors;   // the provider will refuse the schema
  std::vector<std::string> notices;  // it may, or another provider would
};
inline constexpr size_t kMaxSchemaErrors = 20;  // of one model or row; the rest is counted

// Looks at response_format, text.format and tools in `params` of each model (openai), at
// output_format, output_config.format and tools (anthropic). Strict-mode rules hold where `strict`
// is true (at Anthropic, in every output format). Only the provider's own hosts are known to
// enforce them: at other endpoints, as of vLLM, what they refuse is a notice. Patterns that are
// invalid or hostile are errors at every endpoint. A model with check_schema: false is left out.
//
// `job` must be finished; `file` is the job file's name, or empty.
SchemaFindings CheckJobSchemas(const JobConfig& job, absl::string_view file);

// The same for bodies of a batch file: each distinct set of schemas once.
class RowSchemaCheck {
 public:
  // Sets of schemas that are remembered; rows beyond are not checked, and a notice says so. Chosen.
  static constexpr size_t kMaxDistinct = 10'000;

  // `job` must outlive it.
  explicit RowSchemaCheck(const JobConfig* job);
  ~RowSchemaCheck();

  // `body` of the row at `line` of the dataset.
  void Add(absl::string_view body, int64_t line);
  SchemaFindings Take();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_SCHEMA_CHECK_H_
