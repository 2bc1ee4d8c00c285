#include "common/quota/profiles.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace headrace::quota {
namespace {

// A minute's counter may be used as fast as the provider takes it: the ring keeps to the minute,
// and pacing may catch up on this much after a large request (bench/quota_hour.cc: 99.1 % used with
// 5 s, 96.5 % with 250 ms, where calls come to 8 % of the limit). Cells of a second have no time
// for it.
constexpr absl::Duration kMinuteBurst = absl::Seconds(5);
constexpr absl::Duration kTenSecondBurst = absl::Seconds(1);
constexpr absl::Duration kShortBurst = absl::Milliseconds(250);
// How much longer one request may be under way than another; costs 0.4 % of a minute, but a tenth
// of a second's cell. Chosen; quota.md 3.1 compares 250 ms and 1.5 s.
constexpr absl::Duration kMinuteGuard = absl::Milliseconds(250);
constexpr absl::Duration kSecondGuard = absl::Milliseconds(100);

using enum CountedOver;

// Facts as of November 2026. "community" is what users measured, not what the provider documents.
constexpr Profile kProfiles[] = {
    {.name = "generic",
     .hosts = "",
     .charge = {.charging = Charging::kActuals},
     .source = "no provider: continuous limits that charge what was used"},
    {.name = "openai",
     .hosts = "api.openai.com",
     // Above 1M input tokens a minute traffic may grow by at most 50 % in 15 minutes: 1.5^(1/15).
     .ramp_start = 1'000'000,
     .ramp_growth = 0.027,
     .charge = {.charging = Charging::kLargerOf},
     .source = "OpenAI rate-limits guide (2026-11): limits refill continuously; a call costs the "
               "larger of max_tokens and an estimate; failed calls count; slow_down above 1M input "
               "TPM. Header arithmetic recomputed from captures (community 541210, 935514)"},
    {.name = "azure",
     .hosts = ".openai.azure.com|.cognitiveservices.azure.com|.services.ai.azure.com",
     .requests = kTenSeconds,
     .tokens = kMinute,
     .utilisation = 1,
     // The simulator's authors saw 16 charged where a chat call sets no max_tokens.
     .charge = {.charging = Charging::kSum, .unset_max_output = 16, .bad_requests_cost = true},
     .source = "azure-ai-docs quota includes (2026-05 to 2026-09): TPM reset each minute, RPM "
               "enforced over 1 s or 10 s, prompt estimate plus max_tokens; rejected calls might "
               "count. stuartleeks/aoai-simulated-api for an unset max_tokens"},
    {.name = "anthropic",
     .hosts = "api.anthropic.com",
     .charge = {.charging = Charging::kActuals, .cached_input_is_free = true},
     .source = "Anthropic rate-limits page (2026-11): token buckets, input corrected to what was "
               "used, cache reads free, output as produced; acceleration limits without numbers"},
    {.name = "mistral",
     .hosts = "api.mistral.ai",
     .requests = kSecond,
     .tokens = kMinute,
     .utilisation = 1,
     .charge = {.charging = Charging::kSum, .unset_max_output = 32'000},
     .source = "captured ratelimitbysize headers (2025, two captures): aligned minutes, query-cost "
               "is the prompt plus max_tokens, 32,000 when unset. Mistral tiers (2026-11): "
               "requests per second"},
    {.name = "deepseek",
     .hosts = "api.deepseek.com",
     .charge = {.charging = Charging::kActuals},
     .source = "DeepSeek rate_limit page (2026-11): calls in flight per account and model, from "
               "send to the end of the answer; no token limit. Set max_in_flight"},
    {.name = "dashscope",
     .hosts = "dashscope.aliyuncs.com|dashscope-intl.aliyuncs.com|dashscope-us.aliyuncs.com",
     .requests = kSecond,
     .tokens = kSecond,
     .utilisation = 1,
     .ramp_start = 500'000,  // chosen: the growth limit has no published numbers
     .ramp_growth = 0.25,
     .charge = {.charging = Charging::kActuals},
     .source = "Alibaba Cloud rate-limit and best-practices pages (2026-11): RPM and TPM, also "
               "RPM/60 and TPM/60 each second, and a dynamic limit of growth (limit_burst_rate)"},
    {.name = "gemini",
     .hosts = "generativelanguage.googleapis.com",
     .requests = kMinute,
     .tokens = kMinute,
     .utilisation = 1,
     .charge = {.charging = Charging::kActuals},
     .source = "Gemini API rate-limits page (2026-11): RPM, input TPM, RPD; mechanics are not "
               "documented, so minutes are assumed, which fit a bucket too. Use "
               "input_tokens_per_minute"},
    {.name = "groq",
     .hosts = "api.groq.com",
     .charge = {.charging = Charging::kActuals, .rejected_calls_count = false},
     .source = "Groq rate-limits page (2026-11): failed calls do not count; continuous by the "
               "page's sample headers; -requests headers are per day"},
    {.name = "bedrock",
     .hosts = ".amazonaws.com",
     .charge = {.charging = Charging::kActuals,
                .reserves_max_output = true,
                .cached_input_is_free = true,
                .output_counts_by_model = true},
     .source = "AWS Bedrock quota pages as quoted in public code (2026-11): input plus max_tokens "
               "at first, then input, cache writes and output by a factor of the model; window not "
               "stated"},
    {.name = "openrouter",
     .hosts = "openrouter.ai",
     .requests = kMinute,
     .utilisation = 1,
     .charge = {.charging = Charging::kActuals},
     .source = "OpenRouter limits page (2026-11): no token limit for paid models; free ones 20 RPM "
               "and 50 or 1,000 a day. Set requests_per_minute and requests_per_day for those"},
    {.name = "window",
     .hosts = "",
     .requests = kMinute,
     .tokens = kMinute,
     .utilisation = 1,
     .charge = {.charging = Charging::kActuals},
     .source = "no provider: counts that start anew each minute"},
};

bool HostFits(absl::string_view host, absl::string_view pattern) {
  if (pattern.empty()) return false;
  return pattern.front() == '.' ? absl::EndsWith(host, pattern) : host == pattern;
}

// "https://user@Host:443/path" -> "host".
std::string HostOf(absl::string_view endpoint) {
  if (const size_t scheme = endpoint.find("://"); scheme != absl::string_view::npos) {
    endpoint.remove_prefix(scheme + 3);
  }
  endpoint = endpoint.substr(0, endpoint.find_first_of("/?#"));
  if (const size_t at = endpoint.rfind('@'); at != absl::string_view::npos) {
    endpoint.remove_prefix(at + 1);
  }
  std::string host = absl::AsciiStrToLower(endpoint.substr(0, endpoint.find(':')));
  while (!host.empty() && host.back() == '.') host.pop_back();
  return host;
}

absl::StatusOr<CountedOver> Over(absl::string_view name, CountedOver otherwise) {
  if (name.empty()) return otherwise;
  if (const std::optional<CountedOver> over = ParseCountedOver(name)) return *over;
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is no window: continuous, minute, 10s or 1s"));
}

struct Rate {
  Dimension dimension;
  int64_t limit;
  CountedOver over;
  int64_t ramp_start;
};

DimensionSpec MakeRate(const Rate& rate, const PoolDescription& description,
                       const Profile& profile) {
  DimensionSpec spec;
  spec.dimension = rate.dimension;
  spec.limit = rate.limit;
  spec.mechanics = rate.over == kContinuous ? Mechanics::kBucket : Mechanics::kWindow;
  spec.burst = kShortBurst;
  spec.guard = kMinuteGuard;
  switch (rate.over) {
    case kContinuous:
      break;
    case kMinute:
      spec.burst = kMinuteBurst;
      break;
    case kTenSeconds:
      spec.window = absl::Seconds(10);
      spec.burst = kTenSecondBurst;
      break;
    case kSecond:
      spec.window = absl::Seconds(1);
      spec.guard = kSecondGuard;
      break;
  }
  if (description.burst) spec.burst = *description.burst;
  if (description.guard) spec.guard = *description.guard;
  if (rate.ramp_start > 0 && rate.ramp_start < rate.limit) spec.ramp_start = rate.ramp_start;
  spec.ramp_growth = description.ramp_growth > 0 ? description.ramp_growth : profile.ramp_growth;
  return spec;
}

void Add(Dimension dimension, Mechanics mechanics, int64_t limit, PoolSpec* pool) {
  if (limit <= 0) return;
  DimensionSpec spec;
  spec.dimension = dimension;
  spec.mechanics = mechanics;
  spec.limit = limit;
  pool->dimensions.push_back(spec);
}

}  // namespace

absl::string_view CountedOverName(CountedOver over) {
  switch (over) {
    case kContinuous:
      return "continuous";
    case kMinute:
      return "minute";
    case kTenSeconds:
      return "10s";
    case kSecond:
      return "1s";
  }
  return "unknown";
}

std::optional<CountedOver> ParseCountedOver(absl::string_view name) {
  if (name == "fixed_minute") return kMinute;
  for (const CountedOver over : {kContinuous, kMinute, kTenSeconds, kSecond}) {
    if (name == CountedOverName(over)) return over;
  }
  return std::nullopt;
}

absl::Span<const Profile> AllProfiles() { return kProfiles; }

const Profile* FindProfile(absl::string_view name) {
  for (const Profile& profile : kProfiles) {
    if (profile.name == name) return &profile;
  }
  return nullptr;
}

const Profile* ProfileOfEndpoint(absl::string_view provider, absl::string_view endpoint) {
  const std::string host = HostOf(endpoint);
  for (const Profile& profile : kProfiles) {
    for (const absl::string_view pattern : absl::StrSplit(profile.hosts, '|')) {
      if (HostFits(host, pattern)) return &profile;
    }
  }
  // A dialect without an endpoint is its inventor's; some other host only speaks it.
  const Profile* named = host.empty() ? FindProfile(provider) : nullptr;
  return named != nullptr ? named : FindProfile("generic");
}

absl::StatusOr<PoolSpec> MakePool(const PoolDescription& description) {
  const Profile* profile =
      FindProfile(description.profile.empty() ? "generic" : description.profile);
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("pool ", description.name, ": ", what));
  };
  if (profile == nullptr) {
    return wrong(absl::StrCat("'", description.profile, "' is no known profile"));
  }
  const absl::StatusOr<CountedOver> requests = Over(description.requests_window, profile->requests);
  const absl::StatusOr<CountedOver> tokens = Over(description.window, profile->tokens);
  if (!requests.ok()) return wrong(requests.status().message());
  if (!tokens.ok()) return wrong(tokens.status().message());
  const int64_t ramp = description.ramp_start.value_or(profile->ramp_start);
  PoolSpec pool;
  pool.name = description.name;
  pool.auto_in_flight = description.auto_in_flight;
  pool.utilisation = description.utilisation > 0 ? description.utilisation : profile->utilisation;
  const Rate rates[] = {
      {Dimension::kRequests, description.requests_per_minute, *requests, 0},
      {Dimension::kTokens, description.tokens_per_minute, *tokens, ramp},
      {Dimension::kInputTokens, description.input_tokens_per_minute, *tokens, ramp},
      {Dimension::kOutputTokens, description.output_tokens_per_minute, *tokens, 0}};
  for (const Rate& rate : rates) {
    if (rate.limit > 0) pool.dimensions.push_back(MakeRate(rate, description, *profile));
  }
  Add(Dimension::kRequestsPerDay, Mechanics::kDay, description.requests_per_day, &pool);
  Add(Dimension::kTokensPerDay, Mechanics::kDay, description.tokens_per_day, &pool);
  Add(Dimension::kInFlight, Mechanics::kGauge, description.max_in_flight, &pool);
  if (absl::Status valid = ValidatePool(pool); !valid.ok()) return valid;
  return pool;
}

}  // namespace headrace::quota
