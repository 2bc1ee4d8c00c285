#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/estimate.h"
#include "coordinator/job/validate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Preflight : public testing::Test {
 protected:
  Preflight() {
    options_.get_env = [this](const std::string& name) -> std::optional<std::string> {
      const auto it = env_.find(name);
      if (it == env_.end()) return std::nullopt;
      return it->second;
    };
    options_.preview = [](const ModelJob& model, const RenderedRow& row) {
      return absl::StatusOr<RequestPreview>(RequestPreview{
          model.endpoint + "/chat/completions",
          absl::StrCat("{\"model\":\"", model.name, "\",\"user\":\"", row.user, "\"}")});
    };
  }

  JobConfig Job(const std::string& content = "{\"q\":\"one\"}\n{\"q\":\"two\"}\n") {
    JobConfig job;
    job.name = "t";
    job.dataset.path = files_.Write("d.jsonl", content);
    job.dataset.prompt = "{{q}}";
    ModelJob model;
    model.name = "m";
    model.endpoint = "http://127.0.0.1:1/v1";
    model.api_key.env = "KEY";
    job.models = {model};
    return job;
  }
  Validation Validate(JobConfig job) {
    EXPECT_TRUE(FinishJob(&job).ok());
    return ValidateJob(job, options_);
  }

  TestFiles files_;
  std::map<std::string, std::string> env_ = {{"KEY", "sk-secret-1"}};
  ValidateOptions options_;
};

TEST_F(Preflight, AGoodJobShowsItsFirstRequestAndNoKey) {
  JobConfig job = Job();
  ASSERT_TRUE(FinishJob(&job).ok());
  const Validation validation = ValidateJob(job, options_);
  EXPECT_THAT(validation.errors, IsEmpty());
  EXPECT_THAT(validation.notices, IsEmpty());
  EXPECT_EQ(MessageOf(absl::InternalError(RenderValidation(job, validation)), files_),
            absl::StrCat("dataset  d.jsonl: JSONL, 2 rows, 24 B, sha256 ",
                         validation.dataset->sha256.substr(0, 12),
                         "\nitems    2 (2 rows x 1 models)\n"
                         "model    m, key: environment variable KEY, there\n"
                         "  POST http://127.0.0.1:1/v1/chat/completions\n"
                         "  {\"model\":\"m\",\"user\":\"one\"}\n"
                         "valid: the job can run\n"));
}

TEST_F(Preflight, AMissingKeyIsNamedByItsSource) {
  env_.clear();
  const Validation validation = Validate(Job());
  EXPECT_THAT(validation.errors, ElementsAre("m: api_key: environment variable KEY is not set"));
  EXPECT_TRUE(validation.credentials_missing);
  JobConfig job = Job();
  job.models[0].api_key = ApiKeySource{"", files_.dir() + "/none"};
  EXPECT_THAT(Validate(job).errors, ElementsAre(HasSubstr("/none")));
}

// Case I1: a newline of a Kubernetes secret became an illegal header, and the error showed the key.
TEST_F(Preflight, WhiteSpaceAroundAKeyIsDroppedAndOtherBytesAreRefusedUnseen) {
  env_["KEY"] = "sk-secret-1\r\n";
  Validation validation = Validate(Job());
  EXPECT_TRUE(validation.ok());
  EXPECT_THAT(validation.notices,
              ElementsAre("m: environment variable KEY has white space around the key, which is "
                          "dropped"));
  for (const char* bad :
       {"sk-secret-1\nx", "sk-secret-1\xC2\xA0", "sk-secret-1\x01", "sk-secret 1"}) {
    env_["KEY"] = bad;
    validation = Validate(Job());
    EXPECT_THAT(validation.errors,
                ElementsAre("m: api_key: environment variable KEY has a space, a control character "
                            "or a character outside ASCII in the key"));
  }
  env_["KEY"] = "\"sk-secret-1\"";
  EXPECT_THAT(Validate(Job()).errors,
              ElementsAre("m: api_key: environment variable KEY has quotes around the key; remove "
                          "them"));
}

TEST_F(Preflight, AnEmptyKeyMeansNoKey) {
  env_["KEY"] = " ";
  const Validation validation = Validate(Job());
  EXPECT_TRUE(validation.ok());
  EXPECT_THAT(validation.notices,
              ElementsAre("m: environment variable KEY is empty: calls go out without a key"));
}

TEST_F(Preflight, BadRowsAndBlankLinesAreNotedAndTheFirstGoodRowIsShown) {
  const Validation validation = Validate(Job("{\"q\":null}\n\n{\"q\":\"two\"}\n"));
  EXPECT_TRUE(validation.ok());
  EXPECT_THAT(validation.notices,
              ElementsAre("1 of 2 rows give no request and will fail as bad_row",
                          "1 blank lines are skipped"));
  ASSERT_TRUE(validation.first_row.has_value());
  EXPECT_EQ(validation.first_row->user, "two");
}

TEST_F(Preflight, ErrorsOfTheDatasetAndOfTheCodecAreErrors) {
  JobConfig job = Job();
  job.dataset.prompt = "{{x}}";
  EXPECT_THAT(Validate(job).errors, ElementsAre(HasSubstr("has the field 'x'; known: q")));
  options_.preview = [](const ModelJob&, const RenderedRow&) {
    return absl::StatusOr<RequestPreview>(absl::InvalidArgumentError("params: no"));
  };
  EXPECT_THAT(Validate(Job()).errors, ElementsAre("m: params: no"));
}

TEST_F(Preflight, ABatchFileForAnotherModelIsNoted) {
  JobConfig job = Job("{\"custom_id\":\"a\",\"body\":{\"model\":\"other\"}}\n");
  job.dataset.prompt = "";
  EXPECT_THAT(Validate(job).notices,
              ElementsAre(HasSubstr("d.jsonl:1: body: asks for model 'other', the job for 'm'; "
                                    "bodies are sent as they are")));
}

TEST_F(Preflight, TheEstimateMultipliesRowsModelsAndPrices) {
  std::string content;
  for (int i = 0; i < 1000; ++i)
    absl::StrAppend(&content, "{\"q\":\"", std::string(400, 'a'), "\"}\n");
  JobConfig job = Job(content + "{\"q\":null}\n");
  job.models[0].params_json = R"({"max_tokens":100})";
  job.models[0].price_input_usd = 1;
  job.models[0].price_output_usd = 2;
  job.models.push_back(job.models[0]);
  job.models[1].price_input_usd.reset();
  PoolJob pool;
  pool.name = "main";
  pool.requests_per_minute = 100;
  job.pools = {pool};
  ASSERT_TRUE(FinishJob(&job).ok());
  const absl::StatusOr<JobEstimate> estimate = EstimateJob(job);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->rows, 1001);
  EXPECT_EQ(estimate->bad_rows, 1);
  EXPECT_EQ(estimate->items, 2002);
  ASSERT_EQ(estimate->models.size(), 2u);
  const ModelEstimate& model = estimate->models[0];
  EXPECT_EQ(model.items, 1000);
  // 400 letters are 100 tokens, give or take what the estimator adds on top.
  EXPECT_GE(model.input_tokens, 100'000);
  EXPECT_LE(model.input_tokens, 200'000);
  EXPECT_GT(model.output_tokens, 0);
  EXPECT_LE(model.output_tokens, 100'000);
  ASSERT_TRUE(model.cost_usd.has_value());
  EXPECT_DOUBLE_EQ(*model.cost_usd, (static_cast<double>(model.input_tokens) +
                                     2 * static_cast<double>(model.output_tokens)) /
                                        1e6);
  EXPECT_FALSE(estimate->cost_complete);
  EXPECT_EQ(estimate->pools[0].limited_by, "requests/min");
  EXPECT_GE(estimate->time, absl::Minutes(20));
  EXPECT_LE(estimate->time, absl::Minutes(20.2));
  const std::string text = RenderEstimate(job, *estimate);
  EXPECT_THAT(text, HasSubstr("items    2002 (1001 rows x 2 models), 1 rows give no request\n"));
  EXPECT_THAT(text, HasSubstr("limited by requests/min"));
  EXPECT_THAT(text, HasSubstr("(not every model has a price)"));
}

TEST_F(Preflight, TheEstimateOfABatchFileCountsTextAndItsOwnLimits) {
  JobConfig job = Job(absl::StrCat(
      "{\"custom_id\":\"a\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
      "\"text\",\"text\":\"",
      std::string(4000, 'a'),
      "\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,",
      std::string(40000, 'A'), "\"}}]}],\"max_tokens\":5}}\n"));
  job.dataset.prompt = "";
  ASSERT_TRUE(FinishJob(&job).ok());
  const absl::StatusOr<JobEstimate> estimate = EstimateJob(job);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_GE(estimate->models[0].input_tokens, 1000);
  EXPECT_LE(estimate->models[0].input_tokens, 4000) << "the picture's text was counted";
  EXPECT_LE(estimate->models[0].output_tokens, 5);
  EXPECT_EQ(estimate->time, absl::ZeroDuration());
}

}  // namespace
}  // namespace headrace
