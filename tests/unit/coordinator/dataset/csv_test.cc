#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "coordinator/dataset/record_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

using testing::HasSubstr;

class Csv : public testing::Test {
 protected:
  ReadResult Read(const std::string& content, const std::string& prompt = "{{q}}",
                  const std::string& id = "") {
    DatasetJob job;
    job.path = files_.Write("d.csv", content);
    job.prompt = prompt;
    job.id = id;
    return ReadAll(job);
  }
  std::string ErrorOf(const std::string& content, const std::string& prompt = "{{q}}") {
    return MessageOf(Read(content, prompt).status, files_);
  }
  std::string RowError(const std::string& line) {
    const ReadResult result = Read("q,b\ngood,1\n" + line);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.rows.size() == 2 ? Short(result.rows[1].error, files_) : "rows";
  }

  TestFiles files_;
};

TEST_F(Csv, QuotesCommasAndLineEndsInsideCellsAreKept) {
  const ReadResult result = Read(
      "id,q\r\n1,\"a, \"\"b\"\"\"\r\n2,\"line 1\nline 2\r\nline 3\"\r\n3,plain \"quote\" here\n",
      "{{q}}", "id");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.info.format, DatasetFormat::kCsv);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[0].user, "a, \"b\"");
  EXPECT_EQ(result.rows[0].line, 2);
  EXPECT_EQ(result.rows[1].user, "line 1\nline 2\r\nline 3");
  EXPECT_EQ(result.rows[1].line, 3);
  EXPECT_EQ(result.rows[2].user, "plain \"quote\" here");
  EXPECT_EQ(result.rows[2].line, 6);
  EXPECT_EQ(result.rows[2].custom_id, "3");
}

TEST_F(Csv, EveryCellIsTextAndIdsAreComparedByteForByte) {
  const ReadResult result = Read(
      "id,q\n007,x\n7,x\n04,x\n1.0,x\n1e5,x\nNA,x\nnull,x\n\" 12 \",x\n 12,x\n", "{{q}}", "id");
  ASSERT_TRUE(result.status.ok()) << result.status;
  std::vector<std::string> ids;
  for (const RenderedRow& row : result.rows) ids.push_back(row.custom_id);
  EXPECT_THAT(ids,
              testing::ElementsAre("007", "7", "04", "1.0", "1e5", "NA", "null", " 12 ", " 12"));
}

TEST_F(Csv, NulBytesAreKeptAndShiftNothing) {
  using std::string_literals::operator""s;
  const ReadResult result = Read("q,b\n\"p\0q\",1\n\"x\0\",2\na\0b,3\n"s, "{{q}}|{{b}}");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[0].user, "p\0q|1"s);
  EXPECT_EQ(result.rows[1].user, "x\0|2"s);
  EXPECT_EQ(result.rows[2].user, "a\0b|3"s);
}

TEST_F(Csv, AByteOrderMarkIsNoPartOfTheFirstColumnsName) {
  const ReadResult result = Read("\xEF\xBB\xBFq,b\na,1\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "a");
}

TEST_F(Csv, AnEmptyPromptCellIsARowError) {
  EXPECT_EQ(RowError(",1\n"), "d.csv:3: prompt: is empty for this row");
  EXPECT_EQ(RowError("\"\",1\n"), "d.csv:3: prompt: is empty for this row");
}

TEST_F(Csv, RowsOfAnotherShapeAreRowErrors) {
  EXPECT_EQ(RowError("a\n"), "d.csv:3: has 1 cells, but the header has 2");
  EXPECT_EQ(RowError("a,b,c\n"), "d.csv:3: has 3 cells, but the header has 2");
  EXPECT_EQ(RowError("\"a\"x,b\n"), "d.csv:3: cell 1 has text after its closing quote");
  EXPECT_EQ(RowError("a,\"b\n\n"), "d.csv:3: cell 2 has a quote that is never closed");
}

TEST_F(Csv, BlankLinesAreNoRows) {
  const ReadResult result = Read("q\n\na\r\n\r\nb\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.info.blank_lines, 2);
}

TEST_F(Csv, ColumnsThatDoNotExistNameTheNearest) {
  EXPECT_EQ(ErrorOf("question,answer\na,b\n", "{{questoin}}"),
            "d.csv:1: no column 'questoin'; did you mean 'question'?");
  EXPECT_EQ(ErrorOf("a,b\n1,2\n", ""),
            "dataset.prompt: is missing, and d.csv has no column 'prompt'; columns are a, b");
}

TEST_F(Csv, HeadersThatCannotBeUsedAreRefused) {
  EXPECT_EQ(ErrorOf("q,q\n1,2\n"), "d.csv: the header names the column 'q' twice");
  EXPECT_EQ(ErrorOf("q\r1\r2\r"),
            "d.csv: taken for CSV since it does not begin with '{', but the header has carriage "
            "returns in it; lines must end in LF or CRLF");
  EXPECT_EQ(ErrorOf("q,b\n"), "d.csv: has no rows");
}

TEST_F(Csv, TabsAndSemicolonsSeparateWhenTheHeaderHasNoComma) {
  EXPECT_EQ(Read("a\tq\n1,5\tx\n").rows[0].user, "x");
  EXPECT_EQ(Read("a;q\n1,5;x\n").rows[0].user, "x");
}

TEST_F(Csv, ColumnNamesMayHaveDotsAndSpaces) {
  EXPECT_EQ(Read("meta.lang, first name \nde,x\n", "{{meta.lang}} {{ first name }}").rows[0].user,
            "de x");
}

TEST_F(Csv, TextThatIsNotUtf8StopsTheJob) {
  EXPECT_EQ(ErrorOf("q,b\na,1\nM\xFCll,1\n"),
            "d.csv:3: is not UTF-8 (byte 2 of the line); convert the file to UTF-8");
}

// A reader that gives the bytes of a string in pieces of random size.
class PiecesSource : public ByteSource {
 public:
  PiecesSource(std::string bytes, Random* random) : bytes_(std::move(bytes)), random_(random) {}
  absl::StatusOr<size_t> Read(char* out, size_t capacity) override {
    const size_t left = bytes_.size() - at_;
    const size_t size = std::min({left, capacity, size_t{1} + random_->Below(5)});
    bytes_.copy(out, size, at_);
    at_ += size;
    return size;
  }

 private:
  std::string bytes_;
  Random* random_;
  size_t at_ = 0;
};

// The naive model: one character at a time, everything in memory.
std::vector<std::vector<std::string>> NaiveCsv(const std::string& text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> cells(1);
  size_t i = 0;
  bool at_cell_start = true;
  size_t record_begin = 0;
  const auto end_record = [&](size_t end) {
    std::string raw = text.substr(record_begin, end - record_begin);
    if (!raw.empty() && raw != "\r") {
      std::string& last = cells.back();
      if (raw.back() == '\r' && !last.empty() && last.back() == '\r') last.pop_back();
      records.push_back(cells);
    }
    cells.assign(1, "");
    at_cell_start = true;
    record_begin = end + 1;
  };
  while (i < text.size()) {
    const char c = text[i];
    if (at_cell_start && c == '"') {
      ++i;
      while (i < text.size()) {
        if (text[i] != '"') {
          cells.back() += text[i++];
        } else if (i + 1 < text.size() && text[i + 1] == '"') {
          cells.back() += '"';
          i += 2;
        } else {
          break;
        }
      }
      ++i;
      at_cell_start = false;
    } else if (c == '\n') {
      end_record(i++);
    } else if (c == ',') {
      cells.emplace_back();
      at_cell_start = true;
      ++i;
    } else {
      cells.back() += c;
      at_cell_start = false;
      ++i;
    }
  }
  if (record_begin < text.size()) end_record(text.size());
  return records;
}

TEST(CsvReader, AgreesWithANaiveModelHoweverTheBytesArrive) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  static constexpr const char* kPieces[] = {"a", "b\xC3\xA9", ",",       "\n",    "\r\n", "\"",
                                            ",", "\n",        "\"x\"\"", "\",\"", "\"\n", " "};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    int quotes = 0;
    for (uint64_t n = random.Below(30); n > 0; --n) text += kPieces[random.Below(12)];
    for (char c : text) quotes += c == '"';
    if (quotes % 2 == 1) text += '"';  // open quotes at the end have a test of their own
    const std::vector<std::vector<std::string>> want = NaiveCsv(text);
    PiecesSource source(text, &random);
    const std::unique_ptr<RecordReader> reader = MakeCsvReader(&source, ',', RecordStart{1, 1});
    std::vector<std::vector<std::string>> got;
    Record record;
    while (true) {
      const absl::StatusOr<bool> found = reader->Next(&record);
      ASSERT_TRUE(found.ok());
      if (!*found) break;
      std::vector<std::string> cells;
      ParseCsvRecord(record.text, ',', &cells);
      got.push_back(cells);
      // Offsets are where a seeking reader begins; this one was told that byte 0 is byte 1.
      ASSERT_EQ(text.substr(static_cast<size_t>(record.offset - 1), record.text.size()),
                record.text);
      ASSERT_EQ(record.line, 1 + std::count(text.begin(), text.begin() + record.offset - 1, '\n'));
    }
    ASSERT_EQ(got, want) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace headrace
