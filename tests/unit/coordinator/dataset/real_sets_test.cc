// The real sets that headrace is run on. They are not part of the project: without them these tests
// say that they are skipped.
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

class RealSets : public testing::Test {
 protected:
  // False when the set is not there.
  bool Find(const std::string& name, DatasetJob* job) {
    job->path = std::string(HEADRACE_SOURCE_DIR) + "/../shared/data/" + name;
    return std::filesystem::exists(job->path);
  }
};

#define FIND_OR_SKIP(name, job)                                                      \
  if (!Find(name, &job)) {                                                           \
    GTEST_SKIP() << job.path << " is not there: the set is not part of the project"; \
  }

TEST_F(RealSets, Gsm8kHas1319Questions) {
  DatasetJob job;
  FIND_OR_SKIP("gsm8k_test.jsonl", job);
  job.prompt = "{{question}}";
  job.expected = "{{answer}}";
  const ReadResult result = ReadAll(job);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.info.rows, 1319);
  EXPECT_EQ(result.info.bad_rows, 0);
  EXPECT_THAT(result.rows[0].user, testing::StartsWith("Janet\xE2\x80\x99s ducks lay 16 eggs"));
  EXPECT_THAT(result.rows[0].expected, testing::EndsWith("\n#### 18"));
  EXPECT_EQ(result.rows[1318].line, 1319);
}

TEST_F(RealSets, HumanEvalHas164PromptsAndIds) {
  DatasetJob job;
  FIND_OR_SKIP("HumanEval.jsonl.gz", job);
  job.id = "task_id";
  job.expected = "{{canonical_solution}}";
  const ReadResult result = ReadAll(job);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.info.rows, 164);
  EXPECT_EQ(result.info.compression, "gzip");
  EXPECT_EQ(result.rows[163].custom_id, "HumanEval/163");
  EXPECT_THAT(result.rows[0].user, testing::StartsWith("from typing import List\n"));
}

TEST_F(RealSets, MtBenchHas80QuestionsWithNumbersAsIds) {
  DatasetJob job;
  FIND_OR_SKIP("mt_bench_question.jsonl", job);
  job.prompt = "{{turns[0]}}";
  job.id = "question_id";
  const ReadResult result = ReadAll(job);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.info.rows, 80);
  EXPECT_EQ(result.rows[0].custom_id, "81");
  EXPECT_THAT(result.rows[0].user, testing::StartsWith("Compose an engaging travel blog post"));
}

}  // namespace
}  // namespace headrace
