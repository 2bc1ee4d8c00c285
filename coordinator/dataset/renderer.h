// Turns one record of a dataset into a rendered row.
#ifndef HEADRACE_COORDINATOR_DATASET_RENDERER_H_
#define HEADRACE_COORDINATOR_DATASET_RENDERER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/dataset/prompt_template.h"
#include "coordinator/dataset/record_reader.h"

namespace headrace {

// How rows of one dataset are read: fixed when it is opened, shared by all its readers.
struct RowPlan {
  std::string file;  // for messages
  DatasetFormat format = DatasetFormat::kJsonl;
  char delimiter = ',';             // of CSV
  std::vector<std::string> header;  // of CSV
  FieldTable fields;
  PromptTemplate prompt;  // empty: the row says it itself (body, "messages" or "prompt")
  PromptTemplate system;
  PromptTemplate expected;
  std::optional<size_t> id;  // in `fields`; empty: the row number
};

// InvalidArgument "dataset.FIELD: what" on a bad template, or for CSV on a field that is no column.
absl::StatusOr<RowPlan> MakeRowPlan(const DatasetJob& job, DatasetFormat format, char delimiter,
                                    std::vector<std::string> header);

// What a pass over all rows learns beyond the rows.
struct RowStatistics {
  std::vector<int64_t> present;      // rows that have field i of the plan, null or not
  int64_t rows = 0;                  // rendered so far
  std::set<std::string> names;       // fields of the first rows, for messages
  std::vector<std::string> remarks;  // of the last row: "field: what", about its pictures
};
inline constexpr size_t kMaxNames = 200;
inline constexpr int64_t kRowsForNames = 100;
inline constexpr size_t kMaxIdBytes = 1024;

// Not thread-safe.
class RowRenderer {
 public:
  virtual ~RowRenderer() = default;
  // Fills all of *row but row->row and row->line, which must be set. A bad record is a row->error
  // "file:line: field: what". `statistics` may be null.
  virtual void Render(const Record& record, RowStatistics* statistics, RenderedRow* row) = 0;
};

// `plan` must outlive the renderer.
std::unique_ptr<RowRenderer> MakeJsonRenderer(const RowPlan* plan);
std::unique_ptr<RowRenderer> MakeCsvRenderer(const RowPlan* plan);

// The values of a row's fields, as a renderer found them; shared end of both renderers.
struct FieldValue {
  enum class State { kAbsent, kNull, kText, kOther };  // kOther: number, bool, object or array
  State state = State::kAbsent;
  std::string text;
  std::string problem;  // the value cannot be used, and why
};

// Renders id and templates from `values`; false with row->error when that cannot be done. `names`
// are the fields that this row has.
bool RenderTemplates(const RowPlan& plan, const std::vector<FieldValue>& values,
                     const std::vector<std::string>& names, RenderedRow* row);
// Sets row->error to "file:line: field: what".
void SetRowError(const RowPlan& plan, absl::string_view field, absl::string_view what,
                 RenderedRow* row);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_RENDERER_H_
