#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "coordinator/dataset/row_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

std::unique_ptr<Dataset> Open(const std::string& path) {
  DatasetJob job;
  job.path = path;
  job.prompt = "{{q}}";
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = Dataset::Open(job);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : nullptr;
}

std::string Text(RowCursor* cursor, uint64_t row) {
  const absl::StatusOr<std::optional<RenderedRow>> read = cursor->ReadAt(RowIndex(row));
  if (!read.ok()) return std::string(read.status().message());
  if (!read->has_value()) return "end";
  EXPECT_EQ((*read)->row, RowIndex(row));
  return absl::StrCat((*read)->line, ":", (*read)->user);
}

class Cursor : public testing::TestWithParam<bool> {
 protected:
  static constexpr uint64_t kRows = 20000;

  // Rows of very different lengths, with blank lines and, in CSV, line ends inside.
  std::string Content() {
    Random random(7);
    std::string text = GetParam() ? "n,q\n" : "\xEF\xBB\xBF";
    int64_t line = GetParam() ? 2 : 1;
    for (uint64_t i = 0; i < kRows; ++i) {
      if (random.Chance(0.1)) {
        text += "\n";
        ++line;
      }
      const std::string filler(random.Below(200), 'x');
      want_.push_back(absl::StrCat(line, ":", i, filler));
      if (GetParam()) {
        absl::StrAppend(&text, "\"a\n\",", i, filler, "\n");
        line += 2;
      } else {
        absl::StrAppend(&text, "{\"q\":\"", i, filler, "\"}\n");
        ++line;
      }
    }
    return text;
  }

  TestFiles files_;
  std::vector<std::string> want_;
};

TEST_P(Cursor, AnyAscendingRowsAreTheSameWithAndWithoutTheIndex) {
  const std::string path = files_.Write("d", Content());
  const std::unique_ptr<Dataset> scanned = Open(path);
  const std::unique_ptr<Dataset> plain = Open(path);
  ASSERT_TRUE(scanned->Scan("").ok());
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int round = 0; round < 20; ++round) {
    const auto jumping = scanned->NewCursor();
    const auto walking = plain->NewCursor();
    ASSERT_TRUE(jumping.ok() && walking.ok());
    for (uint64_t row = random.Below(3000); row < kRows; row += 1 + random.Below(4000)) {
      ASSERT_EQ(Text(jumping->get(), row), want_[row]);
      ASSERT_EQ(Text(walking->get(), row), want_[row]);
    }
    EXPECT_EQ(Text(jumping->get(), kRows + 5), "end");
    EXPECT_EQ(Text(walking->get(), kRows), "end");
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Cursor, testing::Bool(),
                         [](const auto& param) { return param.param ? "Csv" : "Jsonl"; });

TEST(DatasetFile, AChangeWhileInUseIsNoticed) {
  TestFiles files;
  const std::string path = files.Write("d", "{\"q\":\"a\"}\n");
  const std::unique_ptr<Dataset> dataset = Open(path);
  files.Write("d", "{\"q\":\"a\"}\n{\"q\":\"b\"}\n");
  EXPECT_EQ(dataset->NewCursor().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(dataset->Scan("").status(), files),
              "dataset d was changed while it was in use");
}

TEST(DatasetFile, AChangeBetweenTwoReadsIsNoticed) {
  TestFiles files;
  std::string content;
  for (int i = 0; i < 40'000; ++i) absl::StrAppend(&content, "{\"q\":\"row ", 100'000 + i, "\"}\n");
  const std::string path = files.Write("d", content);
  const std::unique_ptr<Dataset> dataset = Open(path);
  ASSERT_TRUE(dataset->Scan("").ok());
  const auto cursor = dataset->NewCursor();
  ASSERT_TRUE(cursor.ok());
  EXPECT_EQ(Text(cursor->get(), 0), "1:row 100000");
  // In place and of the same size: row 39999 would be sent under the id of another text.
  content.replace(content.size() - 4, 1, "X");
  files.Write("d", content);
  const std::string read = Text(cursor->get(), 39'999);
  EXPECT_THAT(read, testing::HasSubstr("was changed while it was in use"));
}

TEST(DatasetFile, AnotherFileOfTheSameNameChangesNothing) {
  TestFiles files;
  const std::string path = files.Write("d", "{\"q\":\"a\"}\n");
  const std::unique_ptr<Dataset> dataset = Open(path);
  std::filesystem::rename(files.Write("new", "{\"q\":\"b\"}\n"), path);
  const auto cursor = dataset->NewCursor();
  ASSERT_TRUE(cursor.ok());
  EXPECT_EQ(Text(cursor->get(), 0), "1:a");
}

TEST(RowIndexTable, StaysSmallAndFindsTheRowBefore) {
  RowIndexTable table;
  constexpr uint64_t kRows = 20'000'000;
  for (uint64_t row = 0; row < kRows; ++row) {
    table.Add(RowIndex(row), {static_cast<int64_t>(row * 3), static_cast<int64_t>(row + 1)});
  }
  for (uint64_t row : {uint64_t{0}, uint64_t{1}, uint64_t{5000}, uint64_t{19'999'999}}) {
    const RowIndexTable::Entry* const entry = table.Find(RowIndex(row));
    ASSERT_NE(entry, nullptr);
    EXPECT_LE(entry->row.value(), row);
    EXPECT_GT(entry->row.value() + 4096, row);
    EXPECT_EQ(entry->start.offset, static_cast<int64_t>(entry->row.value() * 3));
  }
  EXPECT_EQ(RowIndexTable().Find(RowIndex(5)), nullptr);
}

}  // namespace
}  // namespace headrace
