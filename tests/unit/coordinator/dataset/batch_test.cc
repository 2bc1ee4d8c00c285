#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

class Batch : public testing::Test {
 protected:
  ReadResult Read(const std::string& content, DatasetJob job = DatasetJob()) {
    job.path = files_.Write("b.jsonl", content);
    return ReadAll(job);
  }
  std::string RowError(const std::string& line) {
    const ReadResult result = Read("{\"custom_id\":\"good\",\"body\":{}}\n" + line + "\n");
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.rows.size() == 2 ? Short(result.rows[1].error, files_) : "rows";
  }

  TestFiles files_;
};

TEST_F(Batch, BodiesAreKeptByteForByte) {
  const std::string body =
      "{ \"model\":\"m\",\"z\" : 1.50, \"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9 \\/ "
      "\xE2\x80\xA8\"}],\"seed\":12345678901234567890 }";
  const ReadResult result = Read(
      "{\"custom_id\": \"q1\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", "
      "\"body\": " +
      body + " }\r\n{\"body\":{},\"custom_id\":\"q2\"}\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.info.format, DatasetFormat::kOpenAiBatch);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].body, body);
  EXPECT_EQ(result.rows[0].url, "/v1/chat/completions");
  EXPECT_EQ(result.rows[0].custom_id, "q1");
  EXPECT_EQ(result.rows[0].user, "");
  EXPECT_EQ(result.rows[1].body, "{}");
  EXPECT_EQ(result.rows[1].url, "");
}

TEST_F(Batch, AByteOrderMarkLeavesBodiesAsTheyAre) {
  const std::string line = "{\"custom_id\":\"a\",\"body\":{\"x\":null}}\n";
  EXPECT_EQ(Read("\xEF\xBB\xBF" + line).rows[0].body, Read(line).rows[0].body);
}

TEST_F(Batch, LinesOfAWrongShapeAreFoundBeforeAnythingIsSent) {
  EXPECT_EQ(RowError("{\"custom_id\":\"a\"}"), "b.jsonl:2: body: is missing");
  EXPECT_EQ(RowError("{\"custom_id\":\"a\",\"body\":\"{}\"}"),
            "b.jsonl:2: body: must be an object");
  EXPECT_EQ(RowError("{\"custom_id\":\" \",\"body\":{}}"), "b.jsonl:2: custom_id: the id is blank");
  EXPECT_EQ(RowError("{\"body\":{},\"x\":1}"),
            "b.jsonl:2: custom_id: the row has no id; known: body, x");
  EXPECT_EQ(RowError("{\"custom_id\":7,\"body\":{}}"),
            "b.jsonl:2: custom_id: the id must be text in quotes");
  EXPECT_EQ(RowError("{\"custom_id\":\"a\",\"method\":\"GET\",\"body\":{}}"),
            "b.jsonl:2: method: must be \"POST\"");
  EXPECT_EQ(RowError("{\"custom_id\":\"a\",\"body\":{},\"body\":{}}"),
            "b.jsonl:2: body: is given twice in this row");
}

TEST_F(Batch, AUrlThatCouldCarryTheKeyToAnotherHostIsRefused) {
  for (const char* url : {"https://evil.example/v1", "//evil.example/v1", "v1", ""}) {
    EXPECT_EQ(RowError(std::string("{\"custom_id\":\"a\",\"body\":{},\"url\":\"") + url + "\"}"),
              "b.jsonl:2: url: must be a path like \"/v1/chat/completions\"")
        << url;
  }
}

TEST_F(Batch, DuplicateIdsNameBothLines) {
  const std::string line = "{\"custom_id\":\"a\",\"body\":{}}\n";
  EXPECT_EQ(MessageOf(Read(line + line).status, files_),
            "b.jsonl: the id 'a' on lines 1 and 2 is used twice. Ids must be unique; without "
            "dataset.id the row number is the id");
}

TEST_F(Batch, ASystemTemplateIsRefusedSinceBodiesStayAsTheyAre) {
  DatasetJob job;
  job.system = "x";
  EXPECT_EQ(Read("{\"custom_id\":\"a\",\"body\":{}}\n", job).status.message(),
            "dataset.system: is not possible with an OpenAI Batch file, whose bodies are sent byte "
            "for byte");
}

TEST_F(Batch, WithAPromptTemplateItIsPlainJsonl) {
  DatasetJob job;
  job.prompt = "{{body.x}}";
  const ReadResult result = Read("{\"custom_id\":\"a\",\"body\":{\"x\":5}}\n", job);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.rows[0].user, "5");
  EXPECT_EQ(result.rows[0].body, "");
}

TEST_F(Batch, PicturesWhoseLabelIsNotTheirTypeAreRemarkedAndLeftAlone) {
  const auto line = [](const std::string& id, const std::string& url) {
    return "{\"custom_id\":\"" + id +
           "\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":[{"
           "\"type\":\"text\",\"text\":\"?\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"" +
           url + "\"}}]}]}}\n";
  };
  const std::string jpeg = "/9j/4AAQSkZJRgABAQAAAQABAAD/";
  const ReadResult result =
      Read(line("good", "data:image\\/jpeg;base64," + jpeg) +
           line("label", "data:image/png;base64," + jpeg) +
           line("jpg", "data:image/jpg;base64," + jpeg) +
           line("svg", "data:image/svg+xml;base64,PHN2Zz4=") + line("path", "pictures/cat.png") +
           line("plain", "data:image/png,abc") + line("junk", "data:image/png;base64,@@@@") +
           line("web", "https://example.org/cat"));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.info.bad_rows, 0);
  EXPECT_EQ(result.info.remarks, 6);
  ASSERT_EQ(result.info.problems.size(), 6u);
  const auto problem = [&](size_t i) { return Short(result.info.problems[i], files_); };
  EXPECT_EQ(problem(0),
            "b.jsonl:2: body.messages[0].content[1]: the picture is labelled image/png, but its "
            "bytes are image/jpeg");
  EXPECT_EQ(problem(1),
            "b.jsonl:3: body.messages[0].content[1]: image/jpg is no media type; it is called "
            "image/jpeg");
  EXPECT_EQ(problem(2),
            "b.jsonl:4: body.messages[0].content[1]: 'image/svg+xml' is not taken by providers, "
            "which know image/png, image/jpeg, image/gif and image/webp");
  EXPECT_EQ(problem(3),
            "b.jsonl:5: body.messages[0].content[1]: 'pictures/cat.png' is neither an http(s) URL "
            "nor a data URL; a provider cannot read a local file");
  EXPECT_EQ(problem(4),
            "b.jsonl:6: body.messages[0].content[1]: a data URL needs ';base64,' before the "
            "picture");
  EXPECT_EQ(problem(5), "b.jsonl:7: body.messages[0].content[1]: the picture is not valid base64");
}

TEST_F(Batch, PicturesOfTheAnthropicShapeAreLookedAtToo) {
  const ReadResult result = Read(
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":"
      "\"base64\",\"media_type\":\"image/jpeg\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAA\"}}]}]}\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.info.problems.size(), 1u);
  EXPECT_EQ(Short(result.info.problems[0], files_),
            "b.jsonl:1: messages[0].content[0]: the picture is labelled image/jpeg, but its bytes "
            "are image/png");
}

}  // namespace
}  // namespace headrace
