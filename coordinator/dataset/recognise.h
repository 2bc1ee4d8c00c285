// Tells what a dataset file is by looking at its content, never at its name.
#ifndef HEADRACE_COORDINATOR_DATASET_RECOGNISE_H_
#define HEADRACE_COORDINATOR_DATASET_RECOGNISE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/dataset/byte_source.h"
#include "coordinator/dataset/dataset.h"

namespace headrace {

struct FileShape {
  Compression compression = Compression::kNone;
  DatasetFormat format = DatasetFormat::kJsonl;
  char delimiter = ',';             // of CSV: comma, tab or semicolon, whichever the header has
  std::vector<std::string> header;  // of CSV
};

// InvalidArgument on formats that are not read (named: Parquet, ZIP, UTF-16, ...), an empty file, a
// CSV header with a name twice. A file of OpenAI Batch lines is JSONL when `has_prompt`: then the
// job says what to send.
absl::StatusOr<FileShape> RecogniseFile(const std::shared_ptr<InputFile>& file, bool has_prompt);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_RECOGNISE_H_
