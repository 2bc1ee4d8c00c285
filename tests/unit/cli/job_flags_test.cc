#include "cli/job_flags.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "gtest/gtest.h"

namespace headrace {
namespace {

struct Parsed {
  bool ok = false;
  std::string error;
  JobFlags flags;
};

Parsed Parse(std::vector<std::string> arguments) {
  Parsed out;
  CLI::App app;
  AddJobFlags(&app, &out.flags);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
    out.ok = true;
  } catch (const CLI::ParseError& e) {
    out.error = e.what();
  }
  return out;
}

ModelJob Model(const std::string& name, const std::string& label, const std::string& endpoint) {
  ModelJob model;
  model.name = name;
  model.label = label;
  model.endpoint = endpoint;
  return model;
}

TEST(JobFlags, ABadValueNamesItsFlag) {
  const std::vector<std::vector<std::string>> cases = {
      {"--deadline", "soon"}, {"--tpm", "many"},      {"--limit", "-1"},
      {"--batch-size", "0"},  {"--attempts", "0"},    {"--max-in-flight", "0"},
      {"--max-failed", "x%"}, {"--max-cost", "free"}, {"--max-cost", "-1"},
      {"--param", "a=b"},     {"--passes", "3000M"}};
  for (const std::vector<std::string>& flag : cases) {
    const Parsed parsed = Parse({"data.jsonl", flag[0], flag[1]});
    EXPECT_FALSE(parsed.ok) << flag[0];
    EXPECT_EQ(parsed.error.rfind(flag[0], 0), 0u) << parsed.error;
  }
}

TEST(JobFlags, AnInputIsNeededAndOnlyOne) {
  EXPECT_FALSE(Parse({}).ok);
  EXPECT_FALSE(Parse({"--model", "m"}).ok);
  EXPECT_FALSE(Parse({"a.jsonl", "b.jsonl"}).ok);
}

TEST(JobFlags, WhatIsNotGivenIsEmpty) {
  const Parsed parsed = Parse({"data.jsonl"});
  ASSERT_TRUE(parsed.ok) << parsed.error;
  JobConfig job;
  ASSERT_TRUE(ApplyJobFlags(parsed.flags, &job).ok());
  EXPECT_EQ(job, JobConfig());
}

TEST(JobFlags, EachFlagReachesItsField) {
  const Parsed parsed = Parse({"data.jsonl",
                               "--model",
                               "m",
                               "--endpoint",
                               "http://e/v1",
                               "--provider",
                               "anthropic",
                               "--ca-file",
                               "ca",
                               "--api-key-env",
                               "KEY",
                               "--param",
                               "temperature=0",
                               "--param",
                               "n=1",
                               "--no-stream",
                               "--prompt",
                               "{{q}}",
                               "--system",
                               "S",
                               "--id",
                               "uid",
                               "--expected",
                               "{{a}}",
                               "--limit",
                               "10",
                               "--tpm",
                               "5M",
                               "--rpm",
                               "10k",
                               "--max-in-flight",
                               "2500",
                               "--batch-size",
                               "100",
                               "--deadline",
                               "90s",
                               "--attempts",
                               "4",
                               "--passes",
                               "3",
                               "--out",
                               "runs/x",
                               "--max-failed",
                               "5%",
                               "--max-cost",
                               "12.5"});
  ASSERT_TRUE(parsed.ok) << parsed.error;
  JobConfig job;
  ASSERT_TRUE(ApplyJobFlags(parsed.flags, &job).ok());

  JobConfig expected;
  expected.models = {Model("m", "", "http://e/v1")};
  expected.models[0].provider = "anthropic";
  expected.models[0].ca_file = "ca";
  expected.models[0].api_key.env = "KEY";
  expected.models[0].params_json = R"({"temperature":0,"n":1})";
  expected.models[0].stream = false;
  expected.dataset.prompt = "{{q}}";
  expected.dataset.system = "S";
  expected.dataset.id = "uid";
  expected.dataset.expected = "{{a}}";
  expected.dataset.limit = 10;
  expected.pools.resize(1);
  expected.pools[0].name = "main";
  expected.pools[0].tokens_per_minute = 5'000'000;
  expected.pools[0].requests_per_minute = 10'000;
  expected.max_in_flight = 2500;
  expected.batch_size = 100;
  expected.batch_deadline = absl::Seconds(90);
  expected.attempts = 4;
  expected.passes = 3;
  expected.output_dir = "runs/x";
  expected.max_failed.share = 0.05;
  expected.max_cost_usd = 12.5;
  EXPECT_EQ(job, expected);
}

TEST(JobFlags, RepeatedModelsDoNotSwallowTheDataset) {
  const Parsed parsed = Parse({"--model", "a", "--model", "b", "--param", "x=1", "data.jsonl"});
  ASSERT_TRUE(parsed.ok) << parsed.error;
  EXPECT_EQ(parsed.flags.models, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parsed.flags.input, "data.jsonl");
}

TEST(JobFlags, AutoTakesThePlaceOfANumberAndANumberThatOfAuto) {
  JobConfig job;
  job.max_in_flight = 7;
  ASSERT_TRUE(ApplyJobFlags(Parse({"d", "--max-in-flight", "auto"}).flags, &job).ok());
  EXPECT_EQ(job.max_in_flight, 0);
  EXPECT_TRUE(job.auto_in_flight);
  ASSERT_TRUE(ApplyJobFlags(Parse({"d"}).flags, &job).ok());
  EXPECT_TRUE(job.auto_in_flight);
  ASSERT_TRUE(ApplyJobFlags(Parse({"d", "--max-in-flight", "9"}).flags, &job).ok());
  EXPECT_EQ(job.max_in_flight, 9);
  EXPECT_FALSE(job.auto_in_flight);
}

TEST(JobFlags, ANumberInFlightIsACountOrAuto) {
  for (const char* bad : {"automatic", "0", "-1", "many", ""}) {
    const Parsed parsed = Parse({"d", "--max-in-flight", bad});
    EXPECT_FALSE(parsed.ok) << bad;
  }
}

TEST(JobFlags, ModelsChooseAmongThoseOfTheFileAndAddOthers) {
  JobConfig job;
  job.models = {Model("gpt", "cold", "http://1"), Model("gpt", "hot", "http://2"),
                Model("claude", "claude", "http://3")};
  ASSERT_TRUE(
      ApplyJobFlags(Parse({"d", "--model", "hot", "--model", "gpt", "--model", "new"}).flags, &job)
          .ok());
  ASSERT_EQ(job.models.size(), 3u);
  EXPECT_EQ(job.models[0].endpoint, "http://2");
  EXPECT_EQ(job.models[1].endpoint, "http://1") << "the first of that name";
  EXPECT_EQ(job.models[2], Model("new", "", ""));
}

TEST(JobFlags, AKeyFileReplacesAKeyFromTheEnvironment) {
  JobConfig job;
  job.models = {Model("m", "m", "http://1")};
  job.models[0].api_key.env = "KEY";
  ASSERT_TRUE(ApplyJobFlags(Parse({"d", "--api-key-file", "k"}).flags, &job).ok());
  EXPECT_EQ(job.models[0].api_key, (ApiKeySource{"", "k"}));
}

TEST(JobFlags, AQuotaForSeveralPoolsIsRefused) {
  JobConfig job;
  job.pools.resize(2);
  EXPECT_EQ(ApplyJobFlags(Parse({"d", "--tpm", "1M"}).flags, &job),
            absl::InvalidArgumentError(
                "--tpm and --rpm: the job has 2 pools; set their limits in the file"));
}

TEST(JobFlags, WithoutAnyModelTheErrorSaysHowToNameOne) {
  EXPECT_EQ(MakeJob(Parse({"data.jsonl"}).flags).status(),
            absl::InvalidArgumentError("no model: give --model NAME, or models in a job file"));
}

TEST(JobFlags, FlagsWinOverTheFile) {
  const std::string path = ::testing::TempDir() + "/job_flags_test.yaml";
  std::ofstream(path) << "job: j\n"
                         "dataset: {path: d.jsonl, prompt: \"{{q}}\"}\n"
                         "models:\n"
                         "  - {name: m, endpoint: \"http://file/v1\", params: {n: 1}}\n"
                         "passes: 5\n";
  const absl::StatusOr<JobConfig> job =
      MakeJob(Parse({path, "--endpoint", "http://flag/v1", "--param", "n=2"}).flags);
  std::remove(path.c_str());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->models[0].endpoint, "http://flag/v1");
  EXPECT_EQ(job->models[0].params_json, R"({"n": 2})");
  EXPECT_EQ(job->passes, 5);
  EXPECT_EQ(job->name, "j");
}

TEST(JobFlags, AMissingJobFileIsAnError) {
  EXPECT_FALSE(MakeJob(Parse({"nowhere/job.yaml"}).flags).ok());
}

}  // namespace
}  // namespace headrace
