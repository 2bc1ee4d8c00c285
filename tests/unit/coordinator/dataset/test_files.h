// Dataset files for tests: in a directory of their own, removed at the end.
#ifndef HEADRACE_TESTS_UNIT_COORDINATOR_DATASET_TEST_FILES_H_
#define HEADRACE_TESTS_UNIT_COORDINATOR_DATASET_TEST_FILES_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/dataset/dataset.h"
#include "gtest/gtest.h"

namespace headrace {

class TestFiles {
 public:
  TestFiles() {
    std::string dir = (std::filesystem::temp_directory_path() / "headrace-XXXXXX").string();
    dir_ = mkdtemp(dir.data());
  }
  ~TestFiles() { std::filesystem::remove_all(dir_); }

  const std::string& dir() const { return dir_; }

  // Writes `content` and returns the path.
  std::string Write(const std::string& name, const std::string& content) const {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::string dir_;
};

// Everything a test asks about one dataset.
struct ReadResult {
  absl::Status status;  // of Open(), Scan() or reading
  DatasetInfo info;
  std::vector<RenderedRow> rows;
};

inline ReadResult ReadAll(const DatasetJob& job) {
  ReadResult result;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = Dataset::Open(job);
  result.status = dataset.status();
  if (!dataset.ok()) return result;
  absl::StatusOr<DatasetInfo> info = (*dataset)->Scan("");
  result.status = info.status();
  if (!info.ok()) return result;
  result.info = *info;
  absl::StatusOr<std::unique_ptr<RowCursor>> cursor = (*dataset)->NewCursor();
  result.status = cursor.status();
  if (!cursor.ok()) return result;
  for (uint64_t i = 0;; ++i) {
    absl::StatusOr<std::optional<RenderedRow>> row = (*cursor)->ReadAt(RowIndex(i));
    result.status = row.status();
    if (!row.ok() || !row->has_value()) return result;
    EXPECT_EQ((*row)->row, RowIndex(i));
    result.rows.push_back(**row);
  }
}

// The message of a failure, with the directory of the file taken away; "ok" without one.
inline std::string MessageOf(const absl::Status& status, const TestFiles& files) {
  if (status.ok()) return "ok";
  std::string message(status.message());
  const std::string prefix = files.dir() + "/";
  for (size_t at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
    message.erase(at, prefix.size());
  }
  return message;
}

inline std::string Short(const std::string& message, const TestFiles& files) {
  return MessageOf(absl::InvalidArgumentError(message), files);
}

}  // namespace headrace

#endif  // HEADRACE_TESTS_UNIT_COORDINATOR_DATASET_TEST_FILES_H_
