// Splits the input into CSV records. The first byte is the size of the pieces in which the rest
// arrives; however it arrives, the records are the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "coordinator/dataset/record_reader.h"
#include "tests/fuzz/string_source.h"

namespace headrace {
namespace {

std::vector<std::vector<std::string>> Cells(absl::string_view text, size_t piece) {
  std::vector<std::vector<std::string>> records;
  StringSource source(text, piece);
  const std::unique_ptr<RecordReader> reader = MakeCsvReader(&source, ',', RecordStart());
  Record record;
  int64_t last_line = 0;
  while (true) {
    const absl::StatusOr<bool> found = reader->Next(&record);
    HR_CHECK(found.ok());
    if (!*found) return records;
    HR_CHECK(record.line > last_line);
    last_line = record.line;
    const size_t offset = static_cast<size_t>(record.offset);
    HR_CHECK(text.substr(offset, record.text.size()) == record.text);
    std::vector<std::string> cells;
    ParseCsvRecord(record.text, ',', &cells);
    HR_CHECK(!cells.empty());
    records.push_back(std::move(cells));
  }
}

}  // namespace
}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  HR_CHECK(headrace::Cells(text, size_t{1} + data[0]) == headrace::Cells(text, size));
  return 0;
}
