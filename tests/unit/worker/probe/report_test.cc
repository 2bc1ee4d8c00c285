// What is printed: a job file takes it, and nothing that a provider says can break it.
#include "worker/probe/report.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/probe/provider_world.h"

namespace headrace::probe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDataset[] = "dataset: {path: d.jsonl, prompt: \"{{q}}\"}\n";

ReportSubject Subject() {
  ReportSubject subject;
  subject.provider = "openai";
  subject.model = "some/model: \"x\" # y";
  subject.endpoint = "http://127.0.0.1:8080/v1";
  subject.api_key_env = "PROBE_KEY";
  return subject;
}

std::string Yaml(const ProviderOptions& options, PlanOptions plan_options = {}) {
  Plan plan(plan_options);
  ProviderWorld world(options);
  world.Run(&plan);
  const Findings findings =
      Conclude(plan.answers(), {"openai", Subject().endpoint, plan_options.exhaust});
  return YamlBlock(Subject(), findings, plan);
}

TEST(Report, TheBlockIsTheRestOfAJobFile) {
  const std::string yaml = Yaml(OpenAiLike());
  absl::StatusOr<JobConfig> job = ParseJob(absl::StrCat(kDataset, yaml), "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status() << "\n" << yaml;
  ASSERT_TRUE(FinishJob(&*job).ok());
  ASSERT_EQ(job->pools.size(), 1u);
  EXPECT_EQ(job->pools[0].requests_per_minute, 500);
  EXPECT_EQ(job->pools[0].tokens_per_minute, 200'000);
  EXPECT_EQ(job->pools[0].window, "continuous");
  EXPECT_EQ(job->pools[0].charge, "larger");
  ASSERT_EQ(job->models.size(), 1u);
  EXPECT_EQ(job->models[0].name, Subject().model);
  EXPECT_EQ(job->models[0].pool, "probed");
  EXPECT_EQ(job->models[0].api_key.env, "PROBE_KEY");
}

TEST(Report, TheBlockIsAJobFileWhateverWasFound) {
  for (const bool headers : {true, false}) {
    for (const bool exhaust : {true, false}) {
      for (const int most : {6, 9, 15, 25, 40}) {
        ProviderOptions options = OpenAiLike();
        options.headers = headers;
        options.limits[0].limit = 30;
        const std::string yaml = Yaml(options, {.max_requests = most, .exhaust = exhaust});
        absl::StatusOr<JobConfig> job = ParseJob(absl::StrCat(kDataset, yaml), "job.yaml");
        ASSERT_TRUE(job.ok()) << job.status() << "\n" << yaml;
        EXPECT_TRUE(FinishJob(&*job).ok()) << yaml;
      }
    }
  }
}

TEST(Report, WordsOfTheProviderCannotLeaveTheirComment) {
  Plan plan{PlanOptions()};
  Answer answer;
  answer.ask = *plan.Next();
  answer.status = 401;
  answer.error_class = ErrorClass::kAuth;
  answer.message = "no\npools: {evil: {}}\r\nmodels: []";
  plan.Add(answer);
  const Findings findings = Conclude(plan.answers(), {"openai", Subject().endpoint, false});
  const std::string yaml = YamlBlock(Subject(), findings, plan);
  const absl::StatusOr<JobConfig> job = ParseJob(absl::StrCat(kDataset, yaml), "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status() << "\n" << yaml;
  ASSERT_EQ(job->pools.size(), 1u);
  EXPECT_EQ(job->pools[0].name, "probed");
}

TEST(Report, WhatWasNotSeenSaysHow) {
  Plan plan{PlanOptions()};
  ProviderOptions options = OpenAiLike();
  options.headers = false;
  ProviderWorld world(options);
  world.Run(&plan);
  const Findings findings = Conclude(plan.answers(), {"openai", Subject().endpoint, false});
  const std::string text = Tables(findings, plan);
  EXPECT_THAT(text, HasSubstr("none that say what is left"));
  EXPECT_THAT(text, HasSubstr("needs --exhaust"));
  EXPECT_THAT(text, Not(HasSubstr("certain) \n")));
}

}  // namespace
}  // namespace headrace::probe
