#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Jsonl : public testing::Test {
 protected:
  ReadResult Read(const std::string& content, const std::string& prompt = "{{q}}",
                  const std::string& id = "") {
    DatasetJob job;
    job.path = files_.Write("d.jsonl", content);
    job.prompt = prompt;
    job.id = id;
    return ReadAll(job);
  }
  std::string ErrorOf(const std::string& content, const std::string& prompt = "{{q}}",
                      const std::string& id = "") {
    return MessageOf(Read(content, prompt, id).status, files_);
  }
  // The error of the only bad row; a good one stands before it.
  std::string RowError(const std::string& line, const std::string& prompt = "{{q}}") {
    const ReadResult result = Read("{\"q\":\"good\",\"prompt\":\"good\"}\n" + line + "\n", prompt);
    EXPECT_TRUE(result.status.ok()) << result.status;
    if (result.rows.size() != 2) return "rows";
    EXPECT_EQ(result.info.bad_rows, result.rows[1].error.empty() ? 0 : 1);
    if (result.rows[1].error.empty()) return "ok";
    EXPECT_THAT(result.info.problems, ElementsAre(result.rows[1].error));
    EXPECT_EQ(result.rows[1].user, "");
    return Short(result.rows[1].error, files_);
  }

  TestFiles files_;
};

TEST_F(Jsonl, RowsAreRenderedAndCounted) {
  const ReadResult result = Read("{\"q\":\"one\"}\n{\"q\":\"two\"}", "Q: {{q}}?");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].user, "Q: one?");
  EXPECT_EQ(result.rows[0].custom_id, "0");
  EXPECT_EQ(result.rows[0].line, 1);
  EXPECT_EQ(result.rows[1].user, "Q: two?");
  EXPECT_EQ(result.rows[1].custom_id, "1");
  EXPECT_EQ(result.rows[1].line, 2);
  EXPECT_EQ(result.info.rows, 2);
  EXPECT_EQ(result.info.bytes, 23);
  EXPECT_EQ(result.info.format, DatasetFormat::kJsonl);
  EXPECT_EQ(result.info.compression, "");
  EXPECT_EQ(result.info.sha256, "abd29d56591ec49fd23903e7d6171bdefc7a8aaa7f3697da477cdd289c2ea0d7");
}

TEST_F(Jsonl, AByteOrderMarkChangesNeitherRowsNorText) {
  const std::string content = "{\"q\":\"a\"}\n{\"q\":\"b\",\"z\":1}\n";
  const ReadResult with = Read("\xEF\xBB\xBF" + content);
  ASSERT_TRUE(with.status.ok()) << with.status;
  ASSERT_EQ(with.rows.size(), 2u);
  EXPECT_EQ(with.rows[0].user, "a");
  EXPECT_EQ(with.rows[1].user, "b");
}

TEST_F(Jsonl, AByteOrderMarkOnALaterLineIsNoJson) {
  EXPECT_THAT(RowError("\xEF\xBB\xBF{\"q\":\"a\"}"), HasSubstr("d.jsonl:2: is not valid JSON"));
}

TEST_F(Jsonl, OnlyALineFeedEndsARecord) {
  const ReadResult result = Read(
      "{\"q\":\"a\xE2\x80\xA8"
      "b\xE2\x80\xA9"
      "c\xC2\x85"
      "d\"}\r\n{\"q\":\"e\"}\r\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].user,
            "a\xE2\x80\xA8"
            "b\xE2\x80\xA9"
            "c\xC2\x85"
            "d");
  EXPECT_EQ(result.rows[1].user, "e");
}

TEST_F(Jsonl, BlankLinesAreNoRowsAndAreCounted) {
  const ReadResult result = Read("\n{\"q\":\"a\"}\n\r\n  \t\n{\"q\":\"b\"}\n\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].line, 2);
  EXPECT_EQ(result.rows[1].line, 5);
  EXPECT_EQ(result.rows[1].custom_id, "1");
  EXPECT_EQ(result.info.blank_lines, 4);
}

TEST_F(Jsonl, EmptyFilesAreRefused) {
  EXPECT_EQ(ErrorOf(""), "d.jsonl: is empty");
  EXPECT_EQ(ErrorOf("\n\n"), "d.jsonl: has no rows, only blank lines");
  EXPECT_EQ(ErrorOf("\xEF\xBB\xBF"), "d.jsonl: has no rows, only blank lines");
}

TEST_F(Jsonl, AFieldThatEveryRowHasTwiceIsNotCalledMissing) {
  EXPECT_THAT(ErrorOf("{\"q\":\"a\",\"q\":\"b\"}\n"),
              HasSubstr("The first: d.jsonl:1: q: is given twice in this row"));
}

TEST_F(Jsonl, OneBadRowIsARowFailureAndTheOthersAreRead) {
  EXPECT_THAT(RowError("{\"q\":\"a\""), HasSubstr("d.jsonl:2: is not valid JSON: "));
  EXPECT_THAT(RowError("{\"q\":tru}"), HasSubstr("d.jsonl:2: is not valid JSON: "));
  EXPECT_THAT(RowError("{\"z\":tru,\"q\":\"a\"}"), HasSubstr("d.jsonl:2: is not valid JSON: "));
  EXPECT_THAT(RowError("{\"q\":\"a\"} x"), HasSubstr("d.jsonl:2: is not valid JSON: "));
  EXPECT_EQ(RowError("[1]"), "d.jsonl:2: is valid JSON but no object");
  EXPECT_EQ(RowError("{\"q\":\"\\ud800\"}"),
            "d.jsonl:2: is not valid JSON: a string has an escape that is no character");
  EXPECT_EQ(RowError("{\"q\":\"a\",\"q\":\"b\"}"), "d.jsonl:2: q: is given twice in this row");
}

TEST_F(Jsonl, AMissingFieldNamesTemplateLineAndTheNearestField) {
  EXPECT_EQ(RowError("{\"question\":\"a\"}", "{{q}}"),
            "d.jsonl:2: prompt: the row has no field 'q'; known: question");
  EXPECT_EQ(RowError("{\"promt\":\"a\"}", "{{prompt}}"),
            "d.jsonl:2: prompt: the row has no field 'prompt'; did you mean 'promt'?");
}

TEST_F(Jsonl, AFieldThatNoRowHasStopsTheJobAndNamesTheNearest) {
  EXPECT_EQ(ErrorOf("{\"question\":\"a\"}\n{\"question\":\"b\"}\n", "{{questoin}}"),
            "dataset.prompt: no row of d.jsonl has the field 'questoin'; did you mean 'question'?");
  EXPECT_EQ(ErrorOf("{\"a\":1,\"b\":2}\n", "{{a}}", "id"),
            "dataset.id: no row of d.jsonl has the field 'id'; known: a, b");
}

TEST_F(Jsonl, NullAndEmptyPromptsAreRowErrors) {
  EXPECT_EQ(RowError("{\"q\":null}"), "d.jsonl:2: prompt: field 'q' is null");
  EXPECT_EQ(RowError("{\"q\":\" \\n\"}"), "d.jsonl:2: prompt: is empty for this row");
}

TEST_F(Jsonl, ValuesThatAreNoTextRenderAsTheirJson) {
  const ReadResult result = Read(
      "{\"i\": 0081 ,\"x\":1}\n"
      "{\"i\": 1.50 , \"l\":[1, \"a\"] , \"o\":{\"k\" : null} , \"b\":true}\n",
      "{{i}}|{{l}}|{{o}}|{{b}}");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.rows[0].error, HasSubstr("is not valid JSON"));
  EXPECT_EQ(result.rows[1].user, "1.50|[1, \"a\"]|{\"k\" : null}|true");
}

TEST_F(Jsonl, NumbersKeepEveryDigit) {
  const ReadResult result =
      Read("{\"n\":12345678901234567890.10,\"e\":-1E+2}\n{\"n\":-0,\"e\":0.0}\n", "{{n}} {{e}}");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "12345678901234567890.10 -1E+2");
  EXPECT_EQ(result.rows[1].user, "-0 0.0");
}

TEST_F(Jsonl, PathsReachIntoObjectsAndLists) {
  const ReadResult result =
      Read("{\"turns\":[\"one\",\"two\"],\"m\":{\"l\":{\"k\":\"deep\"}},\"0\":\"zero\"}\n",
           "{{turns[0]}} {{turns.1}} {{m.l.k}} {{ m.l | json }} {{0}} {{turns|json}}");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "one two deep {\"k\":\"deep\"} zero [\"one\",\"two\"]");
}

TEST_F(Jsonl, APathThatEndsNowhereIsARowError) {
  const ReadResult result = Read(
      "{\"t\":[\"a\",\"b\"]}\n{\"t\":[\"a\"]}\n{\"t\":\"text\"}\n{\"t\":[1,null]}\n", "{{t[1]}}");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "b");
  EXPECT_EQ(Short(result.rows[1].error, files_),
            "d.jsonl:2: prompt: the row has no field 't[1]'; known: t");
  EXPECT_EQ(Short(result.rows[2].error, files_),
            "d.jsonl:3: prompt: the row has no field 't[1]'; known: t");
  EXPECT_EQ(Short(result.rows[3].error, files_), "d.jsonl:4: prompt: field 't[1]' is null");
}

TEST_F(Jsonl, AKeyWithADotWinsOverAPath) {
  const ReadResult result = Read(
      "{\"a\":{\"b\":\"path\"},\"a.b\":\"key\"}\n{\"a.b\":\"key\",\"a\":{\"b\":\"path\"}}\n"
      "{\"a\":{\"b\":\"path\"}}\n",
      "{{a.b}}");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "key");
  EXPECT_EQ(result.rows[1].user, "key");
  EXPECT_EQ(result.rows[2].user, "path");
}

TEST_F(Jsonl, EscapedKeysAndTextAreRead) {
  const ReadResult result =
      Read("{\"\\u0071\":\"\\u00e9\\n\\t\\\"\\\\\\/ \\ud83d\\ude00\"}\n", "{{q}}");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "\xC3\xA9\n\t\"\\/ \xF0\x9F\x98\x80");
}

TEST_F(Jsonl, RowsWithAPromptOrMessagesNeedNoTemplate) {
  const ReadResult result = Read(
      "{\"prompt\":\"plain\"}\n"
      "{\"messages\": [ {\"role\":\"user\",\"content\":\"hi\"} ] }\n"
      "{\"prompt\":[{\"role\":\"user\",\"content\":\"trl\"}]}\n",
      "");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "plain");
  EXPECT_EQ(result.rows[0].messages_json, "");
  EXPECT_EQ(result.rows[1].user, "");
  EXPECT_EQ(result.rows[1].messages_json, "[ {\"role\":\"user\",\"content\":\"hi\"} ]");
  EXPECT_EQ(result.rows[2].messages_json, "[{\"role\":\"user\",\"content\":\"trl\"}]");
}

TEST_F(Jsonl, APromptThatIsNoTextIsARowError) {
  EXPECT_EQ(RowError("{\"prompt\":123}", ""), "d.jsonl:2: prompt: must be text, not a number");
  EXPECT_EQ(RowError("{\"prompt\":null}", ""), "d.jsonl:2: prompt: must be text, not null");
  EXPECT_EQ(RowError("{\"prompt\":\"\"}", ""), "d.jsonl:2: prompt: is empty for this row");
  EXPECT_EQ(RowError("{\"prompt\":[\"a\",\"b\"]}", ""),
            "d.jsonl:2: prompt: message 0 is no object with a 'role'");
  EXPECT_EQ(RowError("{\"messages\":\"x\"}", ""), "d.jsonl:2: messages: must be a list");
  EXPECT_EQ(RowError("{\"messages\":[]}", ""), "d.jsonl:2: messages: is an empty list");
  EXPECT_EQ(RowError("{\"x\":1}", ""),
            "d.jsonl:2: the row has neither 'messages' nor 'prompt', and the job has no "
            "dataset.prompt");
}

TEST_F(Jsonl, WithoutATemplateTheFieldsOfTheRowsAreNamed) {
  EXPECT_EQ(ErrorOf("{\"question\":\"a\",\"answer\":\"b\"}\n", ""),
            "none of the 1 rows gives a request. The first: d.jsonl:1: the row has neither "
            "'messages' nor 'prompt', and the job has no dataset.prompt. Fields of the first rows: "
            "answer, question");
}

TEST_F(Jsonl, IdsAreTakenByteForByte) {
  const ReadResult result = Read(
      "{\"q\":\"x\",\"id\":\"007\"}\n{\"q\":\"x\",\"id\":7}\n{\"q\":\"x\",\"id\":\" 7 \"}\n"
      "{\"q\":\"x\",\"id\":7.0}\n{\"q\":\"x\",\"id\":\"NA\"}\n",
      "{{q}}", "id");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].custom_id, "007");
  EXPECT_EQ(result.rows[1].custom_id, "7");
  EXPECT_EQ(result.rows[2].custom_id, " 7 ");
  EXPECT_EQ(result.rows[3].custom_id, "7.0");
  EXPECT_EQ(result.rows[4].custom_id, "NA");
}

TEST_F(Jsonl, IdsThatCannotBeUsedAreRowErrors) {
  const ReadResult result = Read(
      absl::StrCat("{\"q\":\"x\",\"id\":\"a\"}\n{\"q\":\"x\"}\n{\"q\":\"x\",\"id\":null}\n",
                   "{\"q\":\"x\",\"id\":true}\n{\"q\":\"x\",\"id\":\" \"}\n{\"q\":\"x\",\"id\":\"",
                   std::string(1025, 'i'), "\"}\n"),
      "{{q}}", "id");
  ASSERT_TRUE(result.status.ok()) << result.status;
  const auto error = [&](size_t i) { return Short(result.rows[i].error, files_); };
  EXPECT_EQ(error(0), "");
  EXPECT_EQ(error(1), "d.jsonl:2: id: the row has no id; known: q");
  EXPECT_EQ(error(2), "d.jsonl:3: id: the id is null");
  EXPECT_EQ(error(3), "d.jsonl:4: id: the id must be text or a number");
  EXPECT_EQ(error(4), "d.jsonl:5: id: the id is blank");
  EXPECT_EQ(error(5), "d.jsonl:6: id: the id is longer than 1024 bytes");
  EXPECT_EQ(result.rows[1].custom_id, "row:1");
}

TEST_F(Jsonl, DuplicateIdsNameBothLines) {
  EXPECT_EQ(ErrorOf("{\"q\":\"x\",\"id\":\"a\"}\n\n{\"q\":\"x\",\"id\":\"b\"}\n"
                    "{\"q\":\"x\",\"id\":\"a\"}\n",
                    "{{q}}", "id"),
            "d.jsonl: the id 'a' on lines 1 and 4 is used twice. Ids must be unique; without "
            "dataset.id the row number is the id");
  EXPECT_EQ(ErrorOf("{\"q\":\"x\",\"id\":\"1\"}\n{\"q\":\"x\",\"id\":1}\n", "{{q}}", "id"),
            "d.jsonl: the id '1' on lines 1 and 2 is used twice. Ids must be unique; without "
            "dataset.id the row number is the id");
}

TEST_F(Jsonl, TextThatIsNotUtf8StopsTheJob) {
  EXPECT_EQ(ErrorOf("{\"q\":\"a\"}\n{\"q\":\"M\xFCll\"}\n"),
            "d.jsonl:2: is not UTF-8 (byte 8 of the line); convert the file to UTF-8");
}

TEST_F(Jsonl, TheLimitTakesRowsFromTheStart) {
  DatasetJob job;
  job.path = files_.Write("d.jsonl", "{\"q\":\"a\"}\n{\"q\":\"b\"}\nbroken\n");
  job.prompt = "{{q}}";
  job.limit = 2;
  const ReadResult limited = ReadAll(job);
  ASSERT_TRUE(limited.status.ok()) << limited.status;
  EXPECT_EQ(limited.rows.size(), 2u);
  EXPECT_EQ(limited.info.rows, 2);
  EXPECT_EQ(limited.info.bad_rows, 0);
  job.limit = 0;
  const ReadResult all = ReadAll(job);
  EXPECT_EQ(all.rows.size(), 3u);
  EXPECT_EQ(all.info.sha256, limited.info.sha256);  // of the file, whatever is taken from it
  job.limit = 100;
  EXPECT_EQ(ReadAll(job).rows.size(), 3u);
}

TEST_F(Jsonl, ARecordBeyondTheLimitFailsAloneAndTheNextIsRead) {
  std::string content = "{\"q\":\"a\"}\n{\"q\":\"";
  content.append((size_t{64} << 20) + 10, 'x');
  content += "\"}\n{\"q\":\"b\"}\n";
  const ReadResult result = Read(content);
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(Short(result.rows[1].error, files_), "d.jsonl:2: is longer than 64 MiB");
  EXPECT_EQ(result.rows[2].user, "b");
  EXPECT_EQ(result.rows[2].line, 3);
}

TEST_F(Jsonl, BadTemplatesAreRefusedWhenOpened) {
  EXPECT_EQ(ErrorOf("{\"q\":1}\n", "a {{q"),
            "dataset.prompt: the {{ at character 3 has no }}; write \\{{ for braces that are text");
  EXPECT_EQ(ErrorOf("{\"q\":1}\n", "{{}}"),
            "dataset.prompt: at character 1: a field without a name");
}

TEST_F(Jsonl, ForeignFilesAreNamed) {
  EXPECT_THAT(ErrorOf(std::string("PAR1\0\0", 6)), HasSubstr("d.jsonl: is a Parquet file; "));
  EXPECT_THAT(ErrorOf("\xFF\xFE{\0"), HasSubstr("d.jsonl: is UTF-16 text; "));
  EXPECT_EQ(ErrorOf("[{\"q\":1}]"),
            "d.jsonl: begins with '[', so it is one JSON list; write one object per line");
}

TEST(DatasetOpen, PathsThatAreNoFilesAreRefused) {
  DatasetJob job;
  job.path = "https://example.org/data.jsonl";
  EXPECT_EQ(Dataset::Open(job).status().message(),
            "dataset.path: https://example.org/data.jsonl is a URL; download it first and give the "
            "path of the file");
  job.path = "/";
  EXPECT_EQ(Dataset::Open(job).status().message(),
            "dataset / is a directory; a dataset is one file, since it is read more than once");
  job.path = "no-such-file.jsonl";
  EXPECT_EQ(Dataset::Open(job).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headrace
