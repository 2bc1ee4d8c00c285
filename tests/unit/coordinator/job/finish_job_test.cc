#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "coordinator/job/job.h"
#include "coordinator/job/nearest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

ModelJob Model(const std::string& name, const std::string& endpoint = "http://127.0.0.1:1/v1") {
  ModelJob model;
  model.name = name;
  model.endpoint = endpoint;
  return model;
}

JobConfig Job() {
  JobConfig job;
  job.dataset.path = "data/gsm8k test.jsonl.gz";
  job.models = {Model("m")};
  return job;
}

std::string ErrorOf(JobConfig job) {
  const absl::Status status = FinishJob(&job);
  if (status.ok()) return "ok";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(FinishJob, WhatIsMissingIsNamed) {
  EXPECT_EQ(ErrorOf(JobConfig()), "dataset.path: is missing");
  JobConfig job = Job();
  job.models.clear();
  EXPECT_EQ(ErrorOf(job), "models: are missing: give at least one model");
  job = Job();
  job.models[0].name = "";
  EXPECT_EQ(ErrorOf(job), "models[0].name: is missing");
  job = Job();
  job.models[0].endpoint = "";
  EXPECT_EQ(ErrorOf(job),
            "models[0].endpoint: is missing: the base URL of the API, like "
            "https://api.openai.com/v1");
}

// A URL is written into the run directory and into messages; so nothing secret may be in it.
TEST(FinishJob, ADatasetUrlWithAKeyInItIsRefusedAndNotRepeated) {
  JobConfig job = Job();
  for (const char* url : {"https://user:hush@h/d.jsonl", "https://hush@h/d.jsonl",
                          "https://h/d?token=hush", "https://h/d?a=b&X-Amz-Signature=hush",
                          "https://h/d?sig=hush", "https://h/d?Signature=hush"}) {
    job.dataset.path = url;
    const std::string error = ErrorOf(job);
    EXPECT_THAT(error, testing::HasSubstr("dataset.path: has a ")) << url;
    EXPECT_THAT(error, testing::HasSubstr("dataset.api_key: {env: NAME}")) << url;
    EXPECT_THAT(error, testing::Not(testing::HasSubstr("hush"))) << url;
  }
  job.dataset.path = "https://h:99999/d";
  EXPECT_EQ(ErrorOf(job), "dataset.path: has a port that is no number from 1 to 65535");
  job.dataset.path = "https://h/d.jsonl?download=true";
  EXPECT_EQ(ErrorOf(job), "ok");
}

TEST(FinishJob, AKeyForADatasetNeedsAUrl) {
  JobConfig job = Job();
  job.dataset.api_key.env = "HF_TOKEN";
  EXPECT_EQ(ErrorOf(job), "dataset.api_key: is for a URL, and dataset.path is a file");
  job.dataset.path = "https://h/d.jsonl";
  EXPECT_EQ(ErrorOf(job), "ok");
  job.dataset.api_key.env = "hf-secret";
  EXPECT_EQ(ErrorOf(job),
            "dataset.api_key.env: must be the name of an environment variable, not the key itself");
}

TEST(FinishJob, ABudgetNeedsThePriceOfEveryModel) {
  JobConfig job = Job();
  job.max_cost_usd = 5;
  EXPECT_EQ(ErrorOf(job),
            "models[0].price: is missing: max_cost needs the price of every model, like price: "
            "{input: 0.15, output: 0.6}");
  job.models[0].price_input_usd = 0.15;
  job.models[0].price_output_usd = 0.6;
  EXPECT_EQ(ErrorOf(job), "ok");
}

TEST(FinishJob, PoolsThatDoNotExistNameTheNearest) {
  JobConfig job = Job();
  PoolJob pool;
  pool.name = "main";
  job.pools = {pool};
  job.models[0].pool = "mian";
  EXPECT_EQ(ErrorOf(job), "models[0].pool: 'mian' is no pool of this job; did you mean 'main'?");
  pool.name = "other";
  job.pools.push_back(pool);
  job.models[0].pool = "";
  EXPECT_EQ(ErrorOf(job), "models[0].pool: is missing, and the job has several pools");
}

TEST(FinishJob, ParamsThatHeadraceSetsItselfAreRefused) {
  JobConfig job = Job();
  job.models[0].params_json = R"({"model":"x"})";
  EXPECT_EQ(ErrorOf(job), "models[0].params.model: is set by headrace itself");
  job.models[0].params_json = R"({"stream":true})";
  EXPECT_EQ(ErrorOf(job), "models[0].params.stream: belongs beside params: stream: true or false");
  job.models[0].params_json = R"({"nested":{"model":"x"}})";
  EXPECT_EQ(ErrorOf(job), "ok");
  job.models[0].params_json = "[1]";
  EXPECT_EQ(ErrorOf(job), "models[0].params: must be a JSON object");
  job.models[0].params_json = "{\"a\":}";
  EXPECT_THAT(ErrorOf(job), testing::StartsWith("models[0].params: is not valid JSON: "));
  job.models[0].params_json = R"({"a":1,"a":2})";
  EXPECT_EQ(ErrorOf(job), "models[0].params: the key \"a\" is too long or given twice");
}

TEST(FinishJob, RangesHoldForFlagsToo) {
  JobConfig job = Job();
  job.attempts = 0;
  EXPECT_EQ(ErrorOf(job), "retry.attempts: must be from 1 to 100");
  job = Job();
  job.first_delay = absl::Seconds(10);
  EXPECT_EQ(ErrorOf(job), "retry.max_delay: is shorter than retry.first_delay");
  job = Job();
  job.batch_deadline = absl::ZeroDuration();
  EXPECT_EQ(ErrorOf(job), "batch.deadline: must be from 1s to 24h00m");
  job = Job();
  job.models[0].headers["X\r\nEvil"] = "1";
  EXPECT_THAT(ErrorOf(job), testing::HasSubstr("is no header name of HTTP"));
  job = Job();
  job.models[0].headers["X-A"] = "1\r\nEvil: 2";
  EXPECT_EQ(ErrorOf(job),
            "models[0].headers.X-A: has a control character or one outside ASCII in its value");
  job = Job();
  job.models[0].headers["Content-Length"] = "1";
  EXPECT_EQ(ErrorOf(job), "models[0].headers.Content-Length: is set by headrace itself");
}

TEST(FinishJob, NameDirectoryAndParamsGetTheirDefaults) {
  JobConfig job = Job();
  job.models[0].params_json = R"({ "b":1.0,"a":[ true,null ],"s":"\u00e9\/" })";
  ASSERT_TRUE(FinishJob(&job).ok());
  EXPECT_EQ(job.name, "gsm8k-test");
  EXPECT_EQ(job.output_dir, "runs/gsm8k-test");
  EXPECT_EQ(job.models[0].params_json, "{\"b\": 1.0, \"a\": [true, null], \"s\": \"\xC3\xA9/\"}");
}

// One name with two temperatures, or at two providers: outputs must not overwrite each other.
TEST(FinishJob, TwoConfigurationsOfOneNameGetTwoLabels) {
  JobConfig job = Job();
  job.models = {Model("a"), Model("a"), Model("a#2"), Model("a")};
  ASSERT_TRUE(FinishJob(&job).ok());
  EXPECT_EQ(job.models[0].label, "a");
  EXPECT_EQ(job.models[1].label, "a#2");
  EXPECT_EQ(job.models[2].label, "a#2#2");
  EXPECT_EQ(job.models[3].label, "a#3");
  job.models[3].label = "a";
  EXPECT_EQ(ErrorOf(job),
            "models[3].label: is the label of an earlier model too; labels are unique in a job");
}

TEST(FinishJob, WithoutPoolsEachAccountGetsItsOwnUnlimitedOne) {
  JobConfig job = Job();
  job.models = {Model("a", "http://h1"), Model("b", "http://h1"), Model("c", "http://h2")};
  ASSERT_TRUE(FinishJob(&job).ok());
  ASSERT_EQ(job.pools.size(), 2u);
  EXPECT_EQ(job.pools[0].name, "default");
  EXPECT_EQ(job.pools[1].name, "default#2");
  EXPECT_EQ(job.pools[0].tokens_per_minute, 0);
  EXPECT_EQ(job.models[0].pool, "default");
  EXPECT_EQ(job.models[1].pool, "default");
  EXPECT_EQ(job.models[2].pool, "default#2");
}

TEST(FinishJob, AModelWithoutAPoolUsesTheOnlyOne) {
  JobConfig job = Job();
  PoolJob pool;
  pool.name = "main";
  job.pools = {pool};
  ASSERT_TRUE(FinishJob(&job).ok());
  EXPECT_EQ(job.models[0].pool, "main");
}

TEST(FinishJob, FinishingTwiceChangesNothing) {
  JobConfig job = Job();
  job.models = {Model("a"), Model("a", "http://h2")};
  ASSERT_TRUE(FinishJob(&job).ok());
  JobConfig again = job;
  ASSERT_TRUE(FinishJob(&again).ok());
  EXPECT_EQ(again, job);
}

TEST(JobNotices, SayWhatIsProbablyNotMeant) {
  JobConfig job = Job();
  ASSERT_TRUE(FinishJob(&job).ok());
  EXPECT_THAT(JobNotices(job), testing::IsEmpty());
  job.batch_deadline = absl::Seconds(60);
  job.models[0].endpoint = "http://h/v1";
  job.models[0].api_key.env = "K";
  PoolJob unused;
  unused.name = "spare";
  job.pools.push_back(unused);
  EXPECT_THAT(
      JobNotices(job),
      testing::ElementsAre("batch.deadline 1m00s is shorter than total_timeout 2m00s of models[0] "
                           "(m): calls that may still end well are cut",
                           "models[0] (m) sends its key over http:// in clear",
                           "pool spare is used by no model"));
  job.models[0].endpoint = "https://h/v1";
  job.models[0].api_key = ApiKeySource();
  EXPECT_THAT(JobNotices(job),
              testing::Contains("models[0] (m) has no api_key: calls go out without one"));
}

TEST(Nearest, AllowsOneEditInThreeLetters) {
  const std::vector<std::string> known = {"path", "prompt", "expected"};
  EXPECT_EQ(Nearest("pth", known), "path");
  EXPECT_EQ(Nearest("Prompt", known), "prompt");
  EXPECT_EQ(Nearest("promtp", known), "prompt");
  EXPECT_EQ(Nearest("question", known), "");
  EXPECT_EQ(Nearest("", known), "");
}

std::string RandomText(Random* random) {
  static constexpr const char* kPieces[] = {
      "a", "Z9", " ",  ":",        "#",  "'",           "\"",   "\\", "\n", "\t",
      "{", "}",  "- ", "\xC3\xA9", "&",  "\x01",        "null", "~",  "@",  "\xF0\x9F\x98\x80",
      "%", ",",  "[",  "\r",       "? ", "\xE2\x80\xA8"};
  std::string text;
  for (uint64_t n = random->Below(8); n > 0; --n) text += kPieces[random->Below(26)];
  return text;
}

absl::Duration RandomDuration(Random* random) {
  return absl::Nanoseconds(random->Between(int64_t{1'000'000}, int64_t{3'600'000'000'000}));
}

JobConfig RandomJob(Random* random) {
  JobConfig job;
  job.name = absl::StrCat("j", random->Below(100));
  job.dataset.path = absl::StrCat("p", RandomText(random));
  job.dataset.prompt = RandomText(random);
  job.dataset.system = RandomText(random);
  job.dataset.expected = RandomText(random);
  job.dataset.id = RandomText(random);
  job.dataset.order = random->Chance(0.5) ? RowOrdering::kFile : RowOrdering::kPromptCache;
  job.dataset.limit = random->Between(int64_t{0}, int64_t{1} << 40);
  for (uint64_t i = random->Below(3); i > 0; --i) {
    PoolJob pool;
    pool.name = absl::StrCat("pool ", i, random->Chance(0.5) ? ": #" : "");
    pool.tokens_per_minute = random->Between(int64_t{0}, int64_t{10'000'000});
    pool.auto_in_flight = random->Chance(0.3);
    if (!pool.auto_in_flight) pool.max_in_flight = random->Between(int64_t{0}, int64_t{1000});
    job.pools.push_back(pool);
  }
  for (uint64_t i = 1 + random->Below(3); i > 0; --i) {
    ModelJob model = Model(random->Chance(0.5) ? "m" : "m:\xC3\xBC");
    if (random->Chance(0.3)) model.label = absl::StrCat("label ", i);
    if (!job.pools.empty()) model.pool = job.pools[0].name;
    if (random->Chance(0.5)) model.api_key.env = "KEY_1";
    model.params_json = absl::StrCat(R"({"t":)", random->Unit(), R"(,"n":1e)", random->Below(9),
                                     R"(,"b":[true,null,{}],"s":"\u0001\ud83d\ude00\"\\:#"})");
    model.stream = random->Chance(0.5);
    model.check_schema = random->Chance(0.5);
    model.weight = 0.001 + random->Unit() * 10;
    if (random->Chance(0.5)) model.price_input_usd = random->Unit();
    if (random->Chance(0.5)) model.price_cached_usd = random->Unit() * 1e-7;
    model.connect_timeout = RandomDuration(random);
    model.total_timeout = RandomDuration(random);
    if (random->Chance(0.5)) model.headers["X-A.b"] = "v: #x";
    job.models.push_back(model);
  }
  job.job_weight = 0.001 + random->Unit() * 10;
  job.batch_size = random->Between(int64_t{1}, int64_t{1000});
  job.batch_deadline = absl::Seconds(random->Between(int64_t{1}, int64_t{1000}));
  job.on_failure = static_cast<OnFailure>(random->Below(3));
  if (random->Chance(0.5)) {
    job.max_failed = *ParseFailureLimit(absl::StrCat(random->Unit() * 100, "%"));
  } else {
    job.max_failed.count = random->Between(int64_t{0}, int64_t{100});
  }
  job.jitter = RandomDuration(random);
  job.output_dir = RandomText(random);
  job.csv = random->Chance(0.5);
  job.json = random->Chance(0.5);
  job.auto_in_flight = random->Chance(0.3);
  if (!job.auto_in_flight) job.max_in_flight = random->Between(int64_t{0}, int64_t{100});
  return job;
}

TEST(ToYaml, ReadingItBackGivesTheSameJob) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int i = 0; i < 500; ++i) {
    JobConfig job = RandomJob(&random);
    const absl::Status finished = FinishJob(&job);
    ASSERT_TRUE(finished.ok()) << finished;
    const std::string yaml = ToYaml(job);
    absl::StatusOr<JobConfig> back = ParseJob(yaml, "job.resolved.yaml");
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << yaml;
    ASSERT_TRUE(FinishJob(&*back).ok());
    ASSERT_EQ(*back, job) << yaml;
    ASSERT_EQ(ToYaml(*back), yaml);
  }
}

}  // namespace
}  // namespace headrace
