#include <zlib.h>
#include <zstd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

using testing::HasSubstr;

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class Compressed : public testing::Test {
 protected:
  ReadResult Read(const std::string& content) {
    DatasetJob job;
    job.path = files_.Write("d", content);  // the name says nothing
    job.prompt = "{{q}}";
    return ReadAll(job);
  }
  std::string ErrorOf(const std::string& content) {
    return MessageOf(Read(content).status, files_);
  }
  static std::string Lines(int from, int to) {
    std::string text;
    for (int i = from; i < to; ++i) absl::StrAppend(&text, "{\"q\":\"question ", i, "\"}\n");
    return text;
  }
  void ExpectRows(const ReadResult& result, size_t rows) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.rows.size(), rows);
    for (size_t i = 0; i < rows; ++i) {
      ASSERT_EQ(result.rows[i].user, absl::StrCat("question ", i));
      ASSERT_EQ(result.rows[i].line, static_cast<int64_t>(i + 1));
    }
  }

  TestFiles files_;
};

TEST_F(Compressed, GzipIsRecognisedByContent) {
  const std::string content = Gzip(Lines(0, 20000));
  const ReadResult result = Read(content);
  ExpectRows(result, 20000);
  EXPECT_EQ(result.info.compression, "gzip");
  EXPECT_EQ(result.info.bytes, static_cast<int64_t>(content.size()));
}

TEST_F(Compressed, AllMembersOfAGzipFileAreRead) {
  ExpectRows(Read(Gzip(Lines(0, 10)) + Gzip("") + Gzip(Lines(10, 3000)) + std::string(100, '\0')),
             3000);
}

TEST_F(Compressed, AllFramesOfAZstdFileAreReadAndSkippableOnesSkipped) {
  const std::string skippable("\x53\x2A\x4D\x18\x04\x00\x00\x00skip", 12);
  const ReadResult result =
      Read(skippable + Zstd(Lines(0, 10)) + Zstd("") + skippable + Zstd(Lines(10, 20000)));
  ExpectRows(result, 20000);
  EXPECT_EQ(result.info.compression, "zstd");
}

TEST_F(Compressed, AFileThatEndsEarlyIsNotTakenForAShortOne) {
  const std::string gzip = Gzip(Lines(0, 1000));
  EXPECT_EQ(ErrorOf(gzip.substr(0, gzip.size() - 20)),
            "dataset d: the gzip data end early; the file is incomplete");
  const std::string zstd = Zstd(Lines(0, 1000));
  EXPECT_EQ(ErrorOf(zstd.substr(0, zstd.size() - 20)),
            "dataset d: the zstd data end early; the file is incomplete");
}

TEST_F(Compressed, DamagedDataAreNamed) {
  std::string gzip = Gzip(Lines(0, 1000));
  gzip[gzip.size() - 6] ^= 1;  // its CRC
  EXPECT_THAT(ErrorOf(gzip), HasSubstr("dataset d: the gzip data are damaged: "));
  EXPECT_THAT(ErrorOf(Gzip(Lines(0, 5)) + "junk"),
              HasSubstr("dataset d: the gzip data are damaged: "));
  EXPECT_THAT(ErrorOf(Zstd(Lines(0, 5)) + "junkjunk"),
              HasSubstr("dataset d: the zstd data are damaged: "));
}

TEST_F(Compressed, AnEmptyCompressedFileHasNoRows) {
  EXPECT_EQ(ErrorOf(Gzip("")), "d: has no rows, only blank lines");
  EXPECT_EQ(ErrorOf(Zstd("")), "d: has no rows, only blank lines");
}

TEST_F(Compressed, CsvMayBeCompressedToo) {
  const ReadResult result = Read(Gzip("q\n\"a\nb\"\n"));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "a\nb");
}

// Its rows are called in another order, so it is unpacked: any row is reached at once.
TEST_F(Compressed, APackedDatasetIsReadInAnyOrder) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&text, "{\"q\":\"", std::string(2000, static_cast<char>('a' + i % 5)), i,
                    "\"}\n");
  }
  for (const std::string& packed : {Gzip(text), Zstd(text)}) {
    DatasetJob job;
    job.path = files_.Write("d", packed);
    job.prompt = "{{q}}";
    job.order = RowOrdering::kPromptCache;
    const auto dataset = Dataset::Open(job);
    ASSERT_TRUE(dataset.ok());
    const auto info = (*dataset)->Scan(files_.dir());
    ASSERT_TRUE(info.ok()) << info.status();
    ASSERT_EQ(info->order.size(), 300u);
    EXPECT_EQ(info->bytes, static_cast<int64_t>(packed.size())) << "of the file as it is";
    const auto cursor = (*dataset)->NewCursor();
    ASSERT_TRUE(cursor.ok());
    for (uint32_t row : info->order) {
      const auto read = (*cursor)->ReadAt(RowIndex(row));
      ASSERT_TRUE(read.ok() && read->has_value());
      EXPECT_EQ((*read)->line, row + 1);
      EXPECT_THAT((*read)->user, testing::EndsWith(absl::StrCat(row)));
    }
  }
}

TEST_F(Compressed, NoRoomToUnpackIsSaidWithTheDirectory) {
  DatasetJob job;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&text, "{\"q\":\"", std::string(2000, i % 2 ? 'a' : 'b'), i, "\"}\n");
  }
  job.path = files_.Write("d", Gzip(text));
  job.prompt = "{{q}}";
  job.order = RowOrdering::kPromptCache;
  const auto dataset = Dataset::Open(job);
  ASSERT_TRUE(dataset.ok());
  EXPECT_THAT(MessageOf((*dataset)->Scan(files_.dir() + "/none").status(), files_),
              HasSubstr("temporary file in none"));
}

}  // namespace
}  // namespace headrace
