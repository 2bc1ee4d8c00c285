// The one pass over a whole dataset before anything is sent.
#ifndef HEADRACE_COORDINATOR_DATASET_SCANNER_H_
#define HEADRACE_COORDINATOR_DATASET_SCANNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/dataset/byte_source.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/dataset/prefix_order.h"
#include "coordinator/dataset/recognise.h"
#include "coordinator/dataset/renderer.h"
#include "coordinator/dataset/row_ids.h"
#include "coordinator/dataset/row_stream.h"

namespace headrace {

std::unique_ptr<RowRenderer> MakeRenderer(const RowPlan* plan);

// Renders one record, whatever is wrong with it.
void RenderRecord(const RowPlan& plan, const Record& record, RowRenderer* renderer,
                  RowStatistics* statistics, RenderedRow* row);

// Used once. Everything given by pointer must outlive it.
class Scanner {
 public:
  Scanner(std::shared_ptr<InputFile> file, const FileShape* shape, const RowPlan* plan,
          uint64_t limit, std::string scratch_dir, RowOrdering order);

  // Errors as Dataset::Scan() names them. Fills *index with the rows of the decompressed file.
  absl::StatusOr<DatasetInfo> Run(RowIndexTable* index);

 private:
  absl::Status TakeRow(const Record& record, RowIndex row);
  void AddProblem(std::string problem);
  absl::Status CheckWhole();
  absl::Status CheckFieldsExist() const;
  absl::Status CheckIds();

  const std::shared_ptr<InputFile> file_;
  const FileShape& shape_;
  const RowPlan& plan_;
  const uint64_t limit_;
  const std::unique_ptr<RowRenderer> renderer_;
  RowIds ids_;
  std::optional<PrefixOrder> order_;
  RowStatistics statistics_;
  RenderedRow row_;
  DatasetInfo info_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_SCANNER_H_
