#include "worker/provider/classify.h"

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace headrace::provider {
namespace {

using enum ErrorClass;
using quota::Dimension;
using quota::Penalty;
using quota::Settlement;

const absl::Time kNow = absl::FromUnixSeconds(1760000000);

struct Example {
  const char* rule;
  int status;
  std::string body;
  ErrorClass error_class;
  http::Headers headers = {};
  Vendor vendor = Vendor::kAny;
  std::optional<absl::Duration> retry_after = std::nullopt;
  std::optional<Dimension> dimension = std::nullopt;
};

Verdict Judge(int status, const std::string& body, const http::Headers& headers = {},
              Vendor vendor = Vendor::kAny) {
  ErrorAnswer answer;
  answer.vendor = vendor;
  answer.http_status = status;
  answer.headers = &headers;
  answer.error = ReadProviderError(body).value_or(ProviderError());
  answer.html = !body.empty() && body[0] == '<';
  answer.local_time = kNow;
  return Classify(answer);
}

// {"error":{...}}
std::string Error(const std::string& members) { return "{\"error\":{" + members + "}}"; }

const http::Headers kShort = {{"retry-after", "12"}};
const http::Headers kNoRetry = {{"x-should-retry", "false"}};
const http::Headers kDoRetry = {{"x-should-retry", "true"}};

// At least one example per row of the table.
std::vector<Example> Examples() {
  return {
      // Cases B4, B5: the same words for no money and for a one-minute throttle.
      {"insufficient-quota", 429,
       Error(R"("type":"insufficient_quota","code":"insufficient_quota","message":"no")"),
       kNoMoney},
      {"insufficient-quota", 429,
       Error(R"("type":"insufficient_quota","code":"insufficient_quota")"), kNoMoney, kNoRetry},
      {"insufficient-quota-short-wait", 429,
       Error(R"("code":"insufficient_quota","message":"over the call rate")"), kRateLimited, kShort,
       Vendor::kAzure, absl::Seconds(12)},
      {"throttling-tokens",
       429,
       Error(R"("type":"insufficient_quota","code":"Throttling.AllocationQuota")"),
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kTokens},
      {"throttling-tokens",
       429,
       R"({"code":"Throttling.AllocationQuota","message":"Allocated quota exceeded","request_id":"r"})",
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kTokens},
      {"dashscope-insufficient-quota",
       429,
       Error(R"("type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded")"),
       kRateLimited,
       {},
       Vendor::kDashScope,
       std::nullopt,
       Dimension::kTokens},
      {"free-quota-used-up", 429,
       Error(R"("code":"Throttling.AllocationQuota","message":"Free allocated quota exceeded.")"),
       kNoMoney},
      {"free-tier-only", 403,
       Error(R"("code":"AllocationQuota.FreeTierOnly","message":"The quota is exhausted.")"),
       kNoMoney},
      {"rate-concurrency",
       429,
       R"({"status":429,"error":"INSUFFICIENT QUOTA","message":"maximum concurrent requests"})",
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kInFlight},
      {"burst-rate", 429, Error(R"("code":"Throttling.BurstRate")"), kRamp},
      {"burst-rate", 429, Error(R"("code":"limit_burst_rate")"), kRamp},
      {"burst-rate", 429, Error(R"("code":"slow_down")"), kRamp},
      {"throttling-requests",
       429,
       Error(R"("code":"limit_requests")"),
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kRequests},
      {"throttling-requests",
       429,
       Error(R"("code":"Throttling.RateQuota")"),
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kRequests},
      {"throttling", 400, R"({"__type":"ThrottlingException","message":"Too many requests"})",
       kRateLimited},
      {"throttling", 429, Error(R"("code":"Throttling")"), kRateLimited},
      {"spend-limit", 429, Error(R"("code":"project_spend_limit_exceeded")"), kNoMoney},
      {"spend-limit", 429, Error(R"("code":"credit_balance_exhausted")"), kNoMoney},
      {"spend-limit", 400, Error(R"("code":"Arrearage","message":"Access denied")"), kNoMoney},
      {"spend-limit", 429,
       R"({"type":"error","error":{"type":"rate_limit_error","message":"limit",
           "details":{"error_code":"enforced_spend_limit_reached"}}})",
       kNoMoney},
      {"usage-limit-as-400", 400,
       R"({"type":"error","error":{"type":"invalid_request_error",
           "message":"You have reached your specified API usage limits. Regain access on"}})",
       kNoMoney},
      {"in-flight-budget",
       402,
       Error(R"("code":402,"metadata":{"limit_source":"openrouter_in_flight_budget"})"),
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kInFlight},
      {"payment-required", 402, Error(R"("message":"Insufficient Balance")"), kNoMoney},
      // Case B6: the delay beside a per-day quota is not to be believed.
      {"daily-quota",
       429,
       R"([{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[
           {"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[
             {"quotaMetric":"m","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
           {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}]}}])",
       kNoMoney,
       {},
       Vendor::kAny,
       absl::Seconds(1)},
      {"free-models-per-day", 429, Error(R"("message":"Rate limit exceeded: free-models-per-day")"),
       kNoMoney},
      {"rate",
       429,
       Error(R"("code":429,"status":"RESOURCE_EXHAUSTED","details":[
           {"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[
             {"quotaId":"GenerateContentPerMinutePerProjectPerModel"}]},
           {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"41.250000001s"}])"),
       kRateLimited,
       {},
       Vendor::kAny,
       absl::Milliseconds(41250) + absl::Nanoseconds(1)},
      // Never fits.
      {"requested-over-limit", 429,
       Error(R"("type":"tokens","code":"rate_limit_exceeded","message":"Request too large for m on)"
             R"( tokens per min (TPM): Limit 30000, Requested 34307. Must be reduced.")"),
       kNeverFits},
      {"rate-tokens",
       429,
       Error(
           R"("type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached for m on)"
           R"( tokens per min (TPM): Limit 50000, Used 47949, Requested 3006. Please try again in)"
           R"( 1.146s. Visit")"),
       kRateLimited,
       {},
       Vendor::kAny,
       absl::Milliseconds(1146),
       Dimension::kTokens},
      {"request-too-large-429", 429, Error(R"("message":"Request too large for model")"),
       kNeverFits},
      {"azure-86400",
       429,
       Error(R"("code":"429","message":"have exceeded token rate limit. Please retry after 86400)"
             R"( seconds.")"),
       kNeverFits,
       {},
       Vendor::kAzure,
       absl::Hours(24)},
      {"output-limit-of-model", 400,
       Error(R"("message":"max_tokens: 99999 > 8192, which is the maximum allowed number of output)"
             R"( tokens for m")"),
       kConfig},
      {"context-length", 400, Error(R"("code":"context_length_exceeded","param":"messages")"),
       kNeverFits},
      {"context-length", 413, R"({"type":"error","error":{"type":"request_too_large"}})",
       kNeverFits},
      {"context-length-text", 400, Error(R"("message":"max_tokens too large: 32768 > 32768-91")"),
       kNeverFits},
      {"context-length-text", 400,
       R"({"object":"error","message":"This model's maximum context length is 4096 tokens",
           "type":"BadRequestError","param":null,"code":400})",
       kNeverFits},
      {"content-too-large", 413, "", kNeverFits},
      // Content.
      {"content-filter", 400,
       Error(R"("code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"})"),
       kContentFilter},
      {"content-filter", 400, R"({"code":"DataInspectionFailed","message":"m"})", kContentFilter},
      {"flagged", 403,
       Error(R"("code":403,"message":"Your chosen model requires moderation and it was flagged")"),
       kContentFilter},
      // Capacity.
      {"overloaded", 529, R"({"type":"error","error":{"type":"overloaded_error"}})", kOverloaded},
      {"overloaded", 503, Error(R"("code":"server_is_overloaded")"), kOverloaded},
      {"overloaded-429", 429,
       Error(R"("code":"429","message":"System is experiencing high demand")"), kOverloaded},
      {"overloaded-429", 429, Error(R"("message":"429 Resource Unavailable")"), kOverloaded},
      {"overloaded-status", 529, "", kOverloaded},
      {"overloaded-status", 498, "", kOverloaded},
      {"unavailable", 503, "<html>", kOverloaded},
      // Rates.
      {"acceleration", 429,
       R"({"type":"error","error":{"type":"rate_limit_error",
           "message":"exceeds the acceleration limit"}})",
       kRamp},
      {"long-wait", 429, "", kNoMoney, {{"retry-after", "86400"}}, Vendor::kAny, absl::Hours(24)},
      {"long-wait",
       429,
       "",
       kNoMoney,
       {{"retry-after", "1296000"}},
       Vendor::kAny,
       absl::Hours(24 * 15)},
      {"rate-not-to-retry", 429, Error(R"("message":"no")"), kBadRequest, kNoRetry},
      {"rate-input-tokens",
       429,
       R"({"type":"error","error":{"type":"rate_limit_error",
           "message":"This request would exceed the limit of 40,000 input tokens per minute"}})",
       kRateLimited,
       {{"retry-after", "7"}},
       Vendor::kAny,
       absl::Seconds(7),
       Dimension::kInputTokens},
      {"rate-output-tokens",
       429,
       R"({"type":"error","error":{"type":"rate_limit_error",
           "message":"limit of 80,000 output tokens per minute"}})",
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kOutputTokens},
      {"rate-requests",
       429,
       Error(R"("type":"requests","code":"rate_limit_exceeded")"),
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kRequests},
      {"rate-requests-text",
       429,
       Error(R"("message":"limit of 50 requests per minute")"),
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kRequests},
      {"rate-tokens-text",
       429,
       Error(R"("message":"tokens per min exceeded")"),
       kRateLimited,
       {},
       Vendor::kAny,
       std::nullopt,
       Dimension::kTokens},
      {"rate", 429, "", kRateLimited},
      {"rate", 429, "<html>Too Many Requests</html>", kRateLimited, kShort, Vendor::kAny,
       absl::Seconds(12)},
      {"rate",
       429,
       "",
       kRateLimited,
       {{"x-ratelimit-limit-tokens", "100"},
        {"x-ratelimit-remaining-tokens", "0"},
        {"x-ratelimit-reset-tokens", "3s"}},
       Vendor::kAny,
       absl::Seconds(3),
       Dimension::kTokens},
      // Keys.
      {"auth", 401, Error(R"("code":"invalid_api_key","message":"Incorrect API key")"), kAuth},
      {"auth", 401, R"({"type":"error","error":{"type":"authentication_error"}})", kAuth},
      {"auth", 400, Error(R"("code":400,"details":[{"reason":"API_KEY_INVALID"}])"), kAuth},
      {"auth-text", 400, Error(R"("message":"API key not valid. Please pass a valid API key.")"),
       kAuth},
      {"auth-status", 401, "", kAuth},
      {"auth-status", 403, Error(R"("message":"no")"), kAuth},
      {"no-access-to-model", 403, Error(R"("code":"model_not_found")"), kConfig},
      {"forbidden-by-gateway", 403, "<!DOCTYPE html><title>Attention Required!</title>", kConfig},
      // Configuration.
      {"config", 404, Error(R"("code":"model_not_found","message":"The model `x` does not exist")"),
       kConfig},
      {"config", 400, Error(R"("code":"unsupported_parameter","param":"max_tokens")"), kConfig},
      {"config", 404, R"({"type":"error","error":{"type":"not_found_error","message":"model: x"}})",
       kConfig},
      {"not-found", 404, "", kConfig},
      {"not-found", 404, R"({"detail":"Not Found"})", kConfig},
      {"item-reference-not-found", 404, Error(R"("code":"previous_response_not_found")"),
       kBadRequest},
      // Case H5.
      {"schema-code", 400,
       Error(R"("code":"invalid_json_schema","param":"text.format.schema",)"
             R"("message":"Invalid JSON schema: regex lookaround is not supported. Found at $.x")"),
       kSchema},
      {"schema-refused", 400,
       Error(R"("message":"Invalid schema for response_format 'r': In context=(), )"
             R"('additionalProperties' is required to be supplied and to be false.",)"
             R"("param":"response_format")"),
       kSchema},
      {"schema-refused", 400,
       Error(R"("message":"Invalid schema for function 'f': In context=('properties', 'a'), )"
             R"(array schema missing items","param":"tools[0].function.parameters")"),
       kSchema},
      {"schema-refused", 400,
       Error(R"("message":"additionalProperties must be supplied and false")"), kSchema},
      {"schema-refused", 400,
       R"({"type":"error","error":{"type":"invalid_request_error","message":"output_format.schema: )"
       R"(For 'object' type, 'additionalProperties' must be explicitly set to false"}})",
       kSchema},
      {"schema-refused", 400,
       R"({"type":"error","error":{"type":"invalid_request_error","message":)"
       R"("tools.0.custom.input_schema: JSON schema is invalid. It must match draft 2020-12"}})",
       kSchema},
      {"schema", 400,
       Error(R"("message":"'response_format' of type 'json_schema' is not supported with this )"
             R"(model","param":"response_format")"),
       kConfig},
      {"config-param", 400,
       Error(R"("type":"invalid_request_error","message":"m","param":"temperature")"), kConfig},
      {"config-status", 405, "", kConfig},
      {"config-status", 301, "", kConfig},
      {"config-status", 501, "", kConfig},
      {"config-status", 505, "", kConfig},
      // Statuses: cases B7, B8, B11.
      {"idempotency-conflict", 409, Error(R"("code":"idempotency_key_reused")"), kBadRequest},
      {"not-to-retry", 409, Error(R"("message":"conflict")"), kBadRequest, kNoRetry},
      {"not-to-retry", 500, "", kBadRequest, kNoRetry},
      {"server-error", 409, Error(R"("message":"conflict")"), kServerError},
      {"server-error", 408, "", kServerError},
      {"server-error", 425, "", kServerError},
      {"server-error", 500, Error(R"("message":"boom")"), kServerError},
      {"server-error", 502, "<html>", kServerError},
      {"server-error", 504, "", kServerError},
      {"server-error", 520, "", kServerError},
      {"server-error", 522, "<html>", kServerError},
      {"server-error", 524, "error code: 524", kServerError},
      {"server-error", 599, "", kServerError},
      {"to-retry", 400, Error(R"("message":"odd")"), kServerError, kDoRetry},
      {"bad-request", 400, Error(R"("type":"invalid_request_error","param":"messages[0].content")"),
       kBadRequest},
      {"bad-request", 422, R"({"detail":[{"loc":["body"],"msg":"field required"}]})", kBadRequest},
      {"bad-request", 418, "", kBadRequest},
      {"unknown", 200, Error(R"("message":"something")"), kServerError},
  };
}

TEST(Classify, EveryExampleMeetsItsRule) {
  for (const Example& example : Examples()) {
    const Verdict verdict = Judge(example.status, example.body, example.headers, example.vendor);
    EXPECT_EQ(verdict.rule, example.rule) << example.status << " " << example.body;
    EXPECT_EQ(ErrorClassName(verdict.error_class), ErrorClassName(example.error_class))
        << example.status << " " << example.body;
    EXPECT_EQ(verdict.dimension, example.dimension) << example.rule << " " << example.body;
    EXPECT_EQ(verdict.retry_after, example.retry_after) << example.rule << " " << example.body;
  }
}

TEST(Classify, EveryRuleHasAnExampleASourceAndANameOfItsOwn) {
  std::set<std::string> shown;
  for (const Example& example : Examples()) shown.insert(example.rule);
  std::set<std::string> rules;
  for (const Rule& rule : AllRules()) {
    EXPECT_TRUE(rules.insert(std::string(rule.name)).second) << rule.name;
    EXPECT_FALSE(rule.source.empty()) << rule.name;
  }
  EXPECT_EQ(shown, rules);
}

TEST(Classify, ThePageOnRetriesShowsEveryRuleAndEveryClass) {
  std::ifstream in(HEADRACE_RETRIES_PAGE);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(page.empty());
  for (const Rule& rule : AllRules()) {
    std::string row("| `");
    row.append(rule.name.data(), rule.name.size());
    EXPECT_NE(page.find(row + "` |"), std::string::npos) << rule.name;
  }
  for (const ErrorClassInfo& info : AllErrorClasses()) {
    if (info.error_class == kNone) continue;
    std::string row("\n| ");
    row.append(info.name.data(), info.name.size());
    row += info.attempt == AttemptRule::kFinal       ? " | final | "
           : info.attempt == AttemptRule::kRetry     ? " | retry | "
           : info.attempt == AttemptRule::kRetryOnce ? " | retry once | "
                                                     : " | throttle | ";
    row += info.next_pass ? "yes |" : "no |";
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

TEST(Classify, AnErrorInA200StandsForTheStatusThatItNames) {
  // Cases A10, A11, A13, B9, B10.
  const struct {
    const char* body;
    int status;
    ErrorClass error_class;
  } kRows[] = {
      {R"({"type":"error","error":{"type":"overloaded_error"}})", 529, kOverloaded},
      {R"({"type":"error","error":{"type":"rate_limit_error"}})", 429, kRateLimited},
      {R"({"type":"error","error":{"type":"api_error"}})", 500, kServerError},
      {R"({"type":"error","error":{"type":"invalid_request_error"}})", 400, kBadRequest},
      {R"({"type":"error","error":{"type":"authentication_error"}})", 401, kAuth},
      {R"({"error":{"message":"upstream error","code":504,"metadata":{"raw":"x"}}})", 504,
       kServerError},
      {R"({"error":{"message":"rejected: the prompt was flagged","code":502}})", 502,
       kContentFilter},
      {R"({"error":{"code":"server_error","message":"stream closed"}})", 500, kServerError},
      {R"({"error":{"code":"rate_limit_exceeded","message":"m"}})", 429, kRateLimited},
      {R"({"object":"error","message":"m","type":"BadRequestError","code":400})", 400, kBadRequest},
      {R"({"error":{"message":"m","code":"429"}})", 429, kRateLimited},
  };
  for (const auto& row : kRows) {
    const Verdict verdict = Judge(200, row.body);
    EXPECT_EQ(verdict.status, row.status) << row.body;
    EXPECT_EQ(ErrorClassName(verdict.error_class), ErrorClassName(row.error_class)) << row.body;
  }
}

TEST(Classify, TheWaitOfAStreamedErrorIsInItsMetadata) {
  // Case A11: epoch milliseconds, 30 s ahead.
  const Verdict verdict =
      Judge(200, Error(R"("message":"daily limit","code":429,"metadata":{"headers":
      {"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1760000030000"}})"));
  EXPECT_EQ(verdict.error_class, kRateLimited);
  EXPECT_EQ(verdict.retry_after, absl::Seconds(30));
}

TEST(Classify, PenaltiesAndSettlementsFollowTheClass) {
  Verdict verdict = Judge(429, "");
  EXPECT_EQ(verdict.penalty, Penalty::Kind::kRate);
  EXPECT_EQ(verdict.settlement, Settlement::kRejected);
  verdict = Judge(429, Error(R"("code":"slow_down")"));
  EXPECT_EQ(verdict.penalty, Penalty::Kind::kRamp);
  verdict = Judge(529, "");
  EXPECT_EQ(verdict.penalty, Penalty::Kind::kCapacity);
  EXPECT_EQ(verdict.settlement, Settlement::kRejected);
  verdict = Judge(401, "");
  EXPECT_EQ(verdict.penalty, Penalty::Kind::kStop);
  verdict = Judge(400, "");
  EXPECT_EQ(verdict.penalty, std::nullopt);
  EXPECT_EQ(verdict.settlement, Settlement::kRejected);
  EXPECT_FALSE(verdict.possibly_billed);
}

TEST(Classify, ARejected400CountsAtAzure) {
  EXPECT_EQ(Judge(400, "", {}, Vendor::kAzure).settlement, Settlement::kUnknown);
  EXPECT_FALSE(Judge(400, "", {}, Vendor::kAzure).possibly_billed);
}

TEST(Classify, AGatewaysTimeoutMayBeBilledAndAServersFaultIsNot) {
  EXPECT_TRUE(Judge(504, "").possibly_billed);
  EXPECT_TRUE(Judge(524, "").possibly_billed);
  EXPECT_FALSE(Judge(500, "").possibly_billed);
  EXPECT_EQ(Judge(500, "").settlement, Settlement::kUnknown);
  EXPECT_EQ(Judge(504, "").settlement, Settlement::kUnknown);
}

TEST(Classify, VendorsAreToldByTheirHostAlone) {
  // Case I5.
  EXPECT_EQ(VendorOfHost("dashscope-intl.aliyuncs.com"), Vendor::kDashScope);
  EXPECT_EQ(VendorOfHost("r.openai.azure.com"), Vendor::kAzure);
  EXPECT_EQ(VendorOfHost("evilaliyuncs.com"), Vendor::kAny);
  EXPECT_EQ(VendorOfHost("aliyuncs.com.evil.example"), Vendor::kAny);
  EXPECT_EQ(VendorOfHost("api.openai.com"), Vendor::kAny);
}

TEST(WaitInText, SentencesOfProviders) {
  EXPECT_EQ(WaitInText("Please try again in 1.146s. Visit x"), absl::Milliseconds(1146));
  EXPECT_EQ(WaitInText("Please try again in 84ms."), absl::Milliseconds(84));
  EXPECT_EQ(WaitInText("Please try again in 6m0s."), absl::Minutes(6));
  EXPECT_EQ(WaitInText("Please retry in 44.200615458s."),
            absl::Milliseconds(44200) + absl::Nanoseconds(615458));
  EXPECT_EQ(WaitInText("Please retry after 86400 seconds."), absl::Hours(24));
  EXPECT_EQ(WaitInText("retry after 1 minute"), absl::Minutes(1));
  for (const char* text : {"", "try again in a while", "retry after ", "try again in -1s",
                           "retry in .", "try again in 5"}) {
    EXPECT_EQ(WaitInText(text), std::nullopt) << text;
  }
}

TEST(RequestedExceedsLimit, NumbersMayHaveSeparators) {
  EXPECT_TRUE(RequestedExceedsLimit("Limit 30,000, Requested 34,307"));
  EXPECT_TRUE(RequestedExceedsLimit("Limit: 30000 / Requested: 34307"));
  EXPECT_FALSE(RequestedExceedsLimit("Limit 50000, Used 47949, Requested 3006"));
  EXPECT_FALSE(RequestedExceedsLimit("Limit 30000"));
  EXPECT_FALSE(RequestedExceedsLimit("Requested a Limit"));
}

TEST(ReadProviderError, WordsOfANestedBodyAreFoundAndBounded) {
  const ProviderError error =
      ReadProviderError(
          Error(R"("type":"t","code":"c","param":"messages[0]","message":"m\n\u00e9")"))
          .value();
  EXPECT_EQ(error.words, (std::vector<std::string>{"t", "c"}));
  EXPECT_EQ(error.param, "messages[0]");
  EXPECT_EQ(error.message, "m\n\xC3\xA9");
  const ProviderError longer =
      ReadProviderError(Error("\"message\":\"" + std::string(100000, 'x') + "\"")).value();
  EXPECT_LT(longer.message.size(), 2100u);
}

TEST(ReadProviderError, TwoMessagesAndNoWordAreNoCrash) {
  const ProviderError error =
      ReadProviderError(R"({"error":{"message":"inner"},"message":"outer"})").value();
  EXPECT_EQ(error.message, "inner");
  EXPECT_TRUE(error.words.empty());
}

TEST(ReadProviderError, TheMessageBesideALabelSaysMore) {
  for (const char* body : {R"({"error":"LABEL","message":"outer"})",
                           R"({"message":"outer","type":"kind","error":"LABEL"})"}) {
    EXPECT_EQ(ReadProviderError(body).value().message, "outer") << body;
  }
}

TEST(ReadProviderError, ACutBodyStillSaysWhatItSaid) {
  const ProviderError error =
      ReadProviderError(R"({"error":{"code":"context_length_exceeded","message":"too lo)").value();
  EXPECT_TRUE(error.HasWord("context_length_exceeded"));
}

TEST(ReadProviderError, AnAnswerIsNoError) {
  for (const char* body :
       {R"({"choices":[],"message":"x"})", R"({"id":"x","choices":null,"usage":null})", "{}", "[]",
        "1", "", "null", R"({"error":null,"choices":[{}]})", R"({"content":[],"message":"m"})"}) {
    EXPECT_FALSE(ReadProviderError(body).has_value()) << body;
  }
}

}  // namespace
}  // namespace headrace::provider
