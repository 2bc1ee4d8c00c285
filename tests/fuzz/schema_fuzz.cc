// Reads the input as the body of a request with schemas in it, for both dialects, and as a pattern.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "common/base/utf8.h"
#include "coordinator/job/pattern_check.h"
#include "coordinator/job/schema_check.h"

namespace {

using namespace headrace;

void CheckAs(const char* provider, const char* endpoint, absl::string_view body) {
  JobConfig job;
  job.dataset.path = "d.jsonl";
  ModelJob model;
  model.label = "m";
  model.provider = provider;
  model.endpoint = endpoint;
  job.models = {model};
  RowSchemaCheck check(&job);
  check.Add(body, 1);
  const SchemaFindings findings = check.Take();
  HR_CHECK(findings.errors.size() <= kMaxSchemaErrors + 1);
  for (const std::string& error : findings.errors) HR_CHECK(IsValidUtf8(error)) << error;
  for (const std::string& notice : findings.notices) HR_CHECK(IsValidUtf8(notice)) << notice;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  CheckAs("openai", "https://api.openai.com/v1", text);
  CheckAs("anthropic", "https://api.anthropic.com", text);
  CheckPattern(text);
  return 0;
}
