// Compiles the input as a template; what compiles also renders.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "coordinator/dataset/prompt_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  FieldTable table;
  const absl::StatusOr<PromptTemplate> compiled = PromptTemplate::Compile(text, &table);
  if (!compiled.ok()) {
    HR_CHECK(compiled.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  const std::vector<absl::string_view> values(table.refs().size(), "value");
  std::string out;
  compiled->Render(values, &out);
  HR_CHECK(out.size() <= text.size() + 5 * compiled->fields().size());
  return 0;
}
