#include <string>

#include "coordinator/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

std::string ErrorOf(absl::string_view yaml) {
  const absl::StatusOr<JobConfig> job = ParseJob(yaml, "job.yaml");
  if (job.ok()) return "ok";
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

JobConfig Parse(absl::string_view yaml) {
  absl::StatusOr<JobConfig> job = ParseJob(yaml, "job.yaml");
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : JobConfig();
}

std::string ParamsOf(const std::string& yaml) {
  const JobConfig job = Parse("models:\n  - name: m\n    params: " + yaml + "\n");
  return job.models.empty() ? "" : job.models[0].params_json;
}

TEST(ParseJob, TheExampleOfTheDesignGivesEveryField) {
  const JobConfig job = Parse(R"(
job: gsm8k
dataset: {path: gsm8k_test.jsonl, prompt: "{{question}}", system: "Answer briefly.", expected: "{{answer}}"}
pools:
  main: {tokens_per_minute: 5M, requests_per_minute: 10k, max_in_flight: 2500}
models:
  - {name: gpt-4o-mini, provider: openai, endpoint: "https://api.openai.com/v1", api_key: {env: OPENAI_API_KEY},
     pool: main, params: {temperature: 0, max_tokens: 512}, stream: true, weight: 1}
batch:   {size: 500, deadline: 120s, on_failure: collect}        # collect | fail_fast | max_failed
retry:   {attempts: 3, first_delay: 500ms, max_delay: 8s, jitter: 200ms}
passes: 2
output:  {dir: runs/gsm8k, csv: true}
)");
  JobConfig want;
  want.name = "gsm8k";
  want.dataset.path = "gsm8k_test.jsonl";
  want.dataset.prompt = "{{question}}";
  want.dataset.system = "Answer briefly.";
  want.dataset.expected = "{{answer}}";
  PoolJob pool;
  pool.name = "main";
  pool.tokens_per_minute = 5'000'000;
  pool.requests_per_minute = 10'000;
  pool.max_in_flight = 2500;
  want.pools = {pool};
  ModelJob model;
  model.name = "gpt-4o-mini";
  model.endpoint = "https://api.openai.com/v1";
  model.api_key.env = "OPENAI_API_KEY";
  model.pool = "main";
  model.params_json = R"({"temperature": 0, "max_tokens": 512})";
  want.models = {model};
  want.output_dir = "runs/gsm8k";
  EXPECT_EQ(job, want);
}

TEST(ParseJob, FieldsBeyondTheDesignAreRead) {
  const JobConfig job = Parse(R"(
models:
  - name: m
    label: cold
    price: {input: 0.15, output: 0.6, cached: 0.075}
    headers: {X-Team: evals, anthropic-beta: a-b}
    ca_file: ca.pem
    connect_timeout: 1s
    first_byte_timeout: 2s
    silence_timeout: 3s
    progress_timeout: 4s
    total_timeout: 5s
    api_key: {file: /run/secrets/key}
max_failed: 2.5%
max_cost: 12.5
max_in_flight: 100
output: {csv: false, csv_safe: false}
batch: {on_failure: max_failed}
retry: {max_retry_after: 1m}
)");
  ASSERT_EQ(job.models.size(), 1u);
  const ModelJob& model = job.models[0];
  EXPECT_EQ(model.label, "cold");
  EXPECT_EQ(model.price_input_usd, 0.15);
  EXPECT_EQ(model.price_output_usd, 0.6);
  EXPECT_EQ(model.price_cached_usd, 0.075);
  EXPECT_EQ(model.headers.at("anthropic-beta"), "a-b");
  EXPECT_EQ(model.ca_file, "ca.pem");
  EXPECT_EQ(model.connect_timeout, absl::Seconds(1));
  EXPECT_EQ(model.first_byte_timeout, absl::Seconds(2));
  EXPECT_EQ(model.silence_timeout, absl::Seconds(3));
  EXPECT_EQ(model.progress_timeout, absl::Seconds(4));
  EXPECT_EQ(model.total_timeout, absl::Seconds(5));
  EXPECT_EQ(model.api_key.file, "/run/secrets/key");
  EXPECT_EQ(job.max_failed.share, 0.025);
  EXPECT_EQ(job.max_cost_usd, 12.5);
  EXPECT_EQ(job.max_in_flight, 100);
  EXPECT_FALSE(job.csv);
  EXPECT_FALSE(job.csv_safe);
  EXPECT_EQ(job.on_failure, OnFailure::kMaxFailed);
  EXPECT_EQ(job.max_retry_after, absl::Minutes(1));
  EXPECT_FALSE(job.auto_in_flight);
  EXPECT_EQ(Parse("max_in_flight: auto").max_in_flight, 0);
  EXPECT_TRUE(Parse("max_in_flight: auto").auto_in_flight);
  const JobConfig pools = Parse("pools: {a: {max_in_flight: auto}, b: {max_in_flight: 10}}");
  EXPECT_TRUE(pools.pools[0].auto_in_flight);
  EXPECT_FALSE(pools.pools[1].auto_in_flight);
  EXPECT_EQ(pools.pools[1].max_in_flight, 10);
  EXPECT_EQ(Parse("max_failed: 10").max_failed.count, 10);
}

TEST(ParseJob, HowAPoolCountsAndChargesIsRead) {
  const JobConfig job = Parse(R"(
pools:
  main: {tokens_per_minute: 1M, requests_per_day: 10k, tokens_per_day: 5M, profile: azure, window: 10s,
         requests_window: continuous, guard: 20ms, burst: 1s, utilisation: 0.9, ramp_start: 0,
         ramp_growth: 0.1, charge: actuals}
  other: {}
)");
  PoolJob pool;
  pool.name = "main";
  pool.tokens_per_minute = 1'000'000;
  pool.requests_per_day = 10'000;
  pool.tokens_per_day = 5'000'000;
  pool.profile = "azure";
  pool.window = "10s";
  pool.requests_window = "continuous";
  pool.guard = absl::Milliseconds(20);
  pool.burst = absl::Seconds(1);
  pool.utilisation = 0.9;
  pool.ramp_start = 0;
  pool.ramp_growth = 0.1;
  pool.charge = "actuals";
  PoolJob other;
  other.name = "other";
  ASSERT_EQ(job.pools.size(), 2u);
  EXPECT_EQ(job.pools[0], pool);
  EXPECT_EQ(job.pools[1], other);
  EXPECT_EQ(Parse(ToYaml(job)).pools, job.pools);
}

TEST(ParseJob, WordsOfAPoolThatMeanNothingNameTheNearest) {
  EXPECT_THAT(ErrorOf("pools: {main: {profile: azur}}"),
              testing::StartsWith("job.yaml:1: pools.main.profile: 'azur' is no known profile; "));
  EXPECT_THAT(ErrorOf("pools: {main: {profile: azur}}"), testing::HasSubstr("azure"));
  EXPECT_THAT(ErrorOf("pools: {main: {window: minutes}}"),
              testing::StartsWith("job.yaml:1: pools.main.window: 'minutes' is no window; "));
  EXPECT_THAT(ErrorOf("pools: {main: {charge: more}}"),
              testing::StartsWith("job.yaml:1: pools.main.charge: 'more' is no way to charge; "));
  EXPECT_THAT(ErrorOf("pools: {main: {utilisation: 2}}"),
              testing::HasSubstr("pools.main.utilisation: must be from 0.1 to 1"));
  EXPECT_THAT(ErrorOf("pools: {main: {guard: 2m}}"),
              testing::HasSubstr("pools.main.guard: must be from 0s to 60s"));
}

TEST(ParseJob, AnUnknownKeyNamesFileLineFieldAndTheNearestKey) {
  EXPECT_EQ(ErrorOf("job: a\nmodles: []\n"),
            "job.yaml:2: modles: unknown key; did you mean 'models'?");
  EXPECT_EQ(ErrorOf("job: a\nmodels:\n  - name: m\n    endpont: x\n"),
            "job.yaml:4: models[0].endpont: unknown key; did you mean 'endpoint'?");
  EXPECT_EQ(ErrorOf("batch: {zzzzzz: 1}"),
            "job.yaml:1: batch.zzzzzz: unknown key; known: size, deadline, on_failure");
  EXPECT_EQ(ErrorOf("pools: {main: {token_per_minute: 1}}"),
            "job.yaml:1: pools.main.token_per_minute: unknown key; "
            "did you mean 'tokens_per_minute'?");
}

TEST(ParseJob, AKeyInTheFileIsRefusedAndNeverShown) {
  const std::string literal = ErrorOf("models:\n  - name: m\n    api_key: sk-very-secret\n");
  EXPECT_EQ(literal,
            "job.yaml:3: models[0].api_key: a key never stands in a job file; name where it is: "
            "api_key: {env: NAME_OF_VARIABLE} or api_key: {file: PATH}");
  for (const char* yaml : {
           "models:\n  - name: m\n    api_key: {env: sk-very-secret}\n",
           "models:\n  - name: m\n    headers: {Authorization: Bearer sk-very-secret}\n",
           "models:\n  - name: m\n    headers: {x-api-key: sk-very-secret}\n",
           "models:\n  - name: m\n    api_key: {value: sk-very-secret}\n",
           "models:\n  - name: m\n    endpoint: https://u:sk-very-secret@h/v1\n",
           "models:\n  - name: m\n    stream: sk-very-secret\n",
           "models: sk-very-secret\n",
       }) {
    const std::string error = ErrorOf(yaml);
    EXPECT_NE(error, "ok") << yaml;
    EXPECT_THAT(error, testing::Not(testing::HasSubstr("sk-very-secret"))) << yaml;
  }
  EXPECT_EQ(ErrorOf("models:\n  - name: m\n    api_key: {env: A, file: b}\n"),
            "job.yaml:3: models[0].api_key: has both env and file; give one");
}

TEST(ParseJob, BadValuesNameFileLineFieldAndWhatIsWanted) {
  EXPECT_EQ(ErrorOf("batch:\n  deadline: 120\n"),
            "job.yaml:2: batch.deadline: \"120\" is no duration like 120s, 500ms or 1m30s");
  EXPECT_EQ(ErrorOf("batch:\n  size: -5\n"),
            "job.yaml:2: batch.size: \"-5\" is no count like 1500, 10k, 5M or 1G");
  EXPECT_EQ(ErrorOf("batch:\n  size: 0\n"), "job.yaml:2: batch.size: must be from 1 to 100000");
  EXPECT_EQ(ErrorOf("batch: {on_failure: colect}"),
            "job.yaml:1: batch.on_failure: 'colect' is no policy; did you mean 'collect'?");
  EXPECT_EQ(ErrorOf("output: {csv: yes}"),
            "job.yaml:1: output.csv: must be true or false, not 'yes'");
  EXPECT_EQ(ErrorOf("passes: [1]"),
            "job.yaml:1: passes: must be a count like 500, 10k or 5M, not a list");
  EXPECT_EQ(ErrorOf("passes: 0"), "job.yaml:1: passes: must be from 1 to 100");
  EXPECT_EQ(ErrorOf("passes: 3G"), "job.yaml:1: passes: is too large");
  EXPECT_EQ(ErrorOf("passes:"),
            "job.yaml:1: passes: has no value; leave the key out to get its default");
  EXPECT_EQ(ErrorOf("max_failed: 101%"),
            "job.yaml:1: max_failed: '101%' is neither a number of items nor a share from 0% to "
            "100%");
  EXPECT_EQ(ErrorOf("max_cost: cheap"), "job.yaml:1: max_cost: must be a number, not 'cheap'");
  EXPECT_EQ(ErrorOf("max_cost: .nan"), "job.yaml:1: max_cost: must be a number, not '.nan'");
  EXPECT_EQ(ErrorOf("max_cost: -1"),
            "job.yaml:1: max_cost: must be 0 (no budget) or an amount in USD");
  EXPECT_EQ(ErrorOf("models: {name: m}"),
            "job.yaml:1: models: must be a list, one '- {name: ...}' per model, not a mapping");
  EXPECT_EQ(ErrorOf("models:\n  - m\n"), "job.yaml:2: models[0]: must be a mapping, not 'm'");
  EXPECT_EQ(ErrorOf("job: j\njob_weight: 0\n"),
            "job.yaml:2: job_weight: must be above 0 and at most 1000000");
  EXPECT_EQ(ErrorOf("models:\n  - name: m\n    weight: 0\n"),
            "job.yaml:3: models[0].weight: must be above 0 and at most 1000000");
  EXPECT_EQ(ErrorOf("models:\n  - provider: opnai\n"),
            "job.yaml:2: models[0].provider: 'opnai' is no known provider; did you mean 'openai'?");
  EXPECT_EQ(ErrorOf("models:\n  - name: m\n    total_timeout: 0\n"),
            "job.yaml:3: models[0].total_timeout: must be from 1ms to 24h");
  EXPECT_EQ(ErrorOf("models:\n- price: {input: -1}\n"),
            "job.yaml:2: models[0].price.input: must be from 0 to 1000000 USD per million tokens");
  EXPECT_EQ(ErrorOf("dataset: data.jsonl"),
            "job.yaml:1: dataset: must be a mapping, not 'data.jsonl'");
  EXPECT_EQ(ErrorOf("pools: [main]"),
            "job.yaml:1: pools: must be a mapping of names to limits, like main: "
            "{tokens_per_minute: 5M}, not a list");
  EXPECT_EQ(ErrorOf("job: a/b"),
            "job.yaml:1: job: must be letters, digits, '.', '_' and '-', at most 200 of them, "
            "since it names the run directory");
}

TEST(ParseJob, EndpointsAreCheckedAsUrls) {
  const auto endpoint = [](absl::string_view url) {
    const std::string error =
        ErrorOf(std::string("models:\n- endpoint: \"").append(url.data(), url.size()) + "\"\n");
    const std::string prefix = "job.yaml:2: models[0].endpoint: ";
    return error.rfind(prefix, 0) == 0 ? error.substr(prefix.size()) : error;
  };
  for (const char* good : {"http://h", "http://h/v1", "https://h:8443/api/v1/", "HTTP://[::1]:80",
                           "https://h/openai?api-version=2024-10-21"}) {
    EXPECT_EQ(endpoint(good), "ok") << good;
  }
  EXPECT_EQ(endpoint("api.openai.com/v1"), "must be a URL that begins with http:// or https://");
  EXPECT_EQ(endpoint("ftp://h"), "must be a URL that begins with http:// or https://");
  EXPECT_EQ(endpoint("http:///v1"), "has no host");
  EXPECT_EQ(endpoint("http://h:0"), "has a port that is no number from 1 to 65535");
  EXPECT_EQ(endpoint("http://h:65536"), "has a port that is no number from 1 to 65535");
  EXPECT_EQ(endpoint("http://h:"), "has a port that is no number from 1 to 65535");
  EXPECT_EQ(endpoint("http://::1/v1"), "has an IPv6 address that is not in brackets");
  EXPECT_EQ(endpoint("http://h/#x"), "has a fragment ('#'), which is never sent");
  for (const char* key : {"https://h/v1?key=abc", "https://h/v1?v=2&API_KEY=abc", "http://h?sig"}) {
    EXPECT_EQ(endpoint(key), "has a key in its query; a key belongs into api_key: {env: NAME}");
  }
  EXPECT_EQ(endpoint("http://h/a b"),
            "has a space, a control character or a character outside ASCII");
}

TEST(ParseJob, AKeyGivenTwiceIsAnError) {
  EXPECT_EQ(ErrorOf("job: a\njob: b\n"), "job.yaml:2: job: is given twice");
  EXPECT_EQ(ErrorOf("pools:\n  a: {}\n  a: {}\n"), "job.yaml:3: pools.a: is given twice");
  EXPECT_EQ(ErrorOf("models:\n- params:\n    a: 1\n    a: 2\n"),
            "job.yaml:4: models[0].params.a: is given twice");
}

TEST(ParseJob, BrokenYamlNamesTheLine) {
  EXPECT_THAT(ErrorOf("job: a\nbatch: {size: 1\n"),
              testing::StartsWith("job.yaml:3: is not valid YAML: "));
  EXPECT_EQ(ErrorOf(""), "job.yaml: is empty");
  EXPECT_EQ(ErrorOf("# nothing\n"), "job.yaml: is empty");
  EXPECT_EQ(ErrorOf("- a\n"), "job.yaml:1: must be a mapping, not a list");
  EXPECT_EQ(ErrorOf("job: a\n---\njob: b\n"),
            "job.yaml:2: text after the job's end; a job file has one document");
}

// yaml-cpp makes empty documents out of this for ever.
TEST(ParseJob, AStrayCommaIsAnErrorAndNoEndlessLoop) {
  EXPECT_EQ(ErrorOf("{job: a}\n, passes: 2\n"),
            "job.yaml:2: text after the job's end; a job file has one document");
  EXPECT_EQ(ErrorOf("{job: a}\n}\n"), "job.yaml:2: is not valid YAML: illegal flow end");
}

TEST(ParseJob, TextThatYamlWouldSilentlyChangeIsRefused) {
  EXPECT_EQ(ErrorOf("job: a\ndataset: {prompt: \"\xE9\"}\n"), "job.yaml:2: is not UTF-8");
  EXPECT_EQ(ErrorOf(std::string("job: a\x04\nmodels: 5\n")),
            "job.yaml:1: has a control character (byte 4)");
  EXPECT_EQ(ErrorOf(std::string(1 << 21, ' ')), "job.yaml: is larger than 1 MiB");
}

TEST(ParseJob, UmlautsQuotesAndAByteOrderMarkAreRead) {
  EXPECT_EQ(Parse("\xEF\xBB\xBF"
                  "job: a\n")
                .name,
            "a");
  EXPECT_EQ(
      Parse("dataset: {path: \"Daten/M\xC3\xBCll 1.jsonl\", prompt: \xE2\x80\x9Cq\xE2\x80\x9D}")
          .dataset.path,
      "Daten/M\xC3\xBCll 1.jsonl");
}

TEST(ParseJob, ParamsKeepTheOrderAndTheTypesOfYaml12) {
  EXPECT_EQ(ParamsOf("{z: 1, a: 0.7, m: true, n: null, s: text, l: [1, 'x', {k: ~}]}"),
            R"({"z": 1, "a": 0.7, "m": true, "n": null, "s": "text", "l": [1, "x", {"k": null}]})");
  EXPECT_EQ(ParamsOf("{a: yes, b: no, c: on, d: Off, e: y}"),
            R"({"a": "yes", "b": "no", "c": "on", "d": "Off", "e": "y"})");
  EXPECT_EQ(ParamsOf("{a: '1', b: \"true\", c: 'null', d: !!str 5}"),
            R"({"a": "1", "b": "true", "c": "null", "d": "5"})");
  EXPECT_EQ(ParamsOf("{a: 0x1F, b: 0o17, c: 007, d: +5, e: -0, f: .5, g: 1., h: 1E5, i: -.5e-3}"),
            R"({"a": 31, "b": 15, "c": 7, "d": 5, "e": -0, "f": 0.5, "g": 1.0, "h": 1E5, )"
            R"("i": -0.5e-3})");
  EXPECT_EQ(ParamsOf("{a: 12345678901234567890123, b: 0.10}"),
            R"({"a": 12345678901234567890123, "b": 0.10})");
  EXPECT_EQ(ParamsOf("{a: 1_000, b: 1.2.3, c: 0b11, d: '', e: 2024-01-01, f: e5, g: ., h: -}"),
            R"({"a": "1_000", "b": "1.2.3", "c": "0b11", "d": "", "e": "2024-01-01", "f": "e5", )"
            R"("g": ".", "h": "-"})");
  EXPECT_EQ(ParamsOf("{stop: [\"\\n\\n\", \"\\u2028\", \"\xC3\xBC\"]}"),
            "{\"stop\": [\"\\n\\n\", \"\\u2028\", \"\xC3\xBC\"]}");
  EXPECT_EQ(ParamsOf("{1: a, true: b}"), R"({"1": "a", "true": "b"})");
}

TEST(ParseJob, ParamsThatJsonCannotSayAreRefused) {
  const auto error = [](const std::string& params) {
    return ErrorOf("models:\n- params: " + params + "\n");
  };
  EXPECT_EQ(error("{a: .inf}"), "job.yaml:2: models[0].params.a: JSON has no number '.inf'");
  EXPECT_EQ(error("{a: [-.INF]}"), "job.yaml:2: models[0].params.a[0]: JSON has no number '-.INF'");
  EXPECT_EQ(error("{a: 1e999}"), "job.yaml:2: models[0].params.a: JSON has no number '1e999'");
  EXPECT_EQ(error("{a: !!int x}"),
            "job.yaml:2: models[0].params.a: is not of its type tag:yaml.org,2002:int");
  EXPECT_EQ(error("{a: !mine x}"), "job.yaml:2: models[0].params.a: has the unknown tag !mine");
  EXPECT_EQ(error("{<<: {a: 1}}"),
            "job.yaml:2: models[0].params.<<: merge keys are not part of YAML 1.2");
  EXPECT_EQ(error("[1]"), "job.yaml:2: models[0].params: must be a mapping, not a list");
}

TEST(ParseJob, AliasesThatMultiplyWithoutEndAreRefused) {
  std::string bomb = "models:\n- params:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "    a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k > 0 ? ", " : "") + before;
    bomb += "]\n";
  }
  EXPECT_THAT(ErrorOf(bomb), testing::HasSubstr("is nested deeper than 64 levels or larger than"));
  EXPECT_THAT(ErrorOf("models:\n- params: {a: &a [*a]}\n"),
              testing::HasSubstr("is nested deeper than 64 levels or larger than"));
}

TEST(ReadJobFile, AMissingFileIsNotFound) {
  const absl::StatusOr<JobConfig> job = ReadJobFile("no/such/job.yaml");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(job.status().message()), testing::HasSubstr("no/such/job.yaml"));
}

}  // namespace
}  // namespace headrace
