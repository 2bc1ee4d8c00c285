#include "coordinator/job/check_job.h"

#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "common/quota/profiles.h"
#include "coordinator/job/nearest.h"

namespace headrace {
namespace {

using Problem = std::optional<FieldError>;

// RFC 9110 section 5.6.2.
bool IsToken(absl::string_view text) {
  if (text.empty()) return false;
  for (char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("!#$%&'*+-.^_`|~", absl::string_view(&c, 1))) {
      return false;
    }
  }
  return true;
}

bool IsEnvironmentName(absl::string_view text) {
  if (text.empty() || absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

bool IsFileWord(absl::string_view text) {
  for (char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') {
      return false;
    }
  }
  return !absl::StartsWith(text, ".") && !absl::StartsWith(text, "-");
}

Problem CheckName(const std::string& field, absl::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return FieldError{field, absl::StrCat("is longer than ", kMaxNameBytes, " bytes")};
  }
  if (!IsValidUtf8(name)) return FieldError{field, "is not UTF-8"};
  for (char c : name) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      return FieldError{field, "has a control character"};
    }
  }
  return std::nullopt;
}

// A header whose value is a secret, so that it must not stand in a job file.
bool CarriesKey(absl::string_view lower_name) {
  for (absl::string_view word :
       {"authorization", "api-key", "apikey", "cookie", "secret", "token"}) {
    if (absl::StrContains(lower_name, word)) return true;
  }
  return false;
}

bool BelongsToHttp(absl::string_view lower_name) {
  for (absl::string_view word :
       {"host", "content-length", "content-type", "transfer-encoding", "connection", "te",
        "upgrade", "expect", "keep-alive", "trailer", "accept-encoding"}) {
    if (lower_name == word) return true;
  }
  return false;
}

Problem CheckHeaders(const ModelJob& model, const std::string& at) {
  for (const auto& [name, value] : model.headers) {
    const std::string field = absl::StrCat(at, ".headers.", ExcerptUtf8(name, 40));
    const std::string lower = absl::AsciiStrToLower(name);
    if (!IsToken(name)) return FieldError{field, "is no header name of HTTP"};
    if (CarriesKey(lower)) {
      return FieldError{field, "would put a key into the job; use api_key: {env: NAME}"};
    }
    if (BelongsToHttp(lower)) return FieldError{field, "is set by headrace itself"};
    for (char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte != '\t' && (byte < 0x20 || byte >= 0x7f)) {
        return FieldError{field, "has a control character or one outside ASCII in its value"};
      }
    }
  }
  return std::nullopt;
}

Problem CheckTimeouts(const ModelJob& model, const std::string& at) {
  const std::pair<absl::string_view, absl::Duration> timeouts[] = {
      {"connect_timeout", model.connect_timeout},
      {"first_byte_timeout", model.first_byte_timeout},
      {"silence_timeout", model.silence_timeout},
      {"progress_timeout", model.progress_timeout},
      {"total_timeout", model.total_timeout}};
  for (const auto& [name, timeout] : timeouts) {
    if (timeout < absl::Milliseconds(1) || timeout > absl::Hours(24)) {
      return FieldError{absl::StrCat(at, ".", name), "must be from 1ms to 24h"};
    }
  }
  return std::nullopt;
}

Problem CheckPrices(const ModelJob& model, const std::string& at) {
  const std::pair<absl::string_view, std::optional<double>> prices[] = {
      {"input", model.price_input_usd},
      {"output", model.price_output_usd},
      {"cached", model.price_cached_usd}};
  for (const auto& [name, price] : prices) {
    if (price.has_value() && !(*price >= 0 && *price <= 1e6)) {
      return FieldError{absl::StrCat(at, ".price.", name),
                        "must be from 0 to 1000000 USD per million tokens"};
    }
  }
  return std::nullopt;
}

// The value of an `env` is not shown: people paste keys there.
Problem CheckKeySource(const ApiKeySource& source, const std::string& at) {
  if (!source.env.empty() && !IsEnvironmentName(source.env)) {
    return FieldError{at + ".env",
                      "must be the name of an environment variable, not the key itself"};
  }
  if (!source.env.empty() && !source.file.empty()) {
    return FieldError{at, "has both env and file; give one"};
  }
  return std::nullopt;
}

Problem CheckWeight(double weight, const std::string& at) {
  if (weight > 0 && weight <= 1e6) return std::nullopt;
  return FieldError{at, "must be above 0 and at most 1000000"};
}

Problem CheckModel(const ModelJob& model, const std::string& at) {
  if (Problem p = CheckName(at + ".name", model.name)) return p;
  if (Problem p = CheckName(at + ".label", model.label)) return p;
  static constexpr absl::string_view kProviders[] = {"openai", "anthropic"};
  if (model.provider != "openai" && model.provider != "anthropic") {
    return FieldError{at + ".provider",
                      absl::StrCat("'", ExcerptUtf8(model.provider, 40), "' is no known provider; ",
                                   DidYouMean(model.provider, kProviders))};
  }
  if (!model.endpoint.empty()) {
    if (std::string what = EndpointProblem(model.endpoint); !what.empty()) {
      return FieldError{at + ".endpoint", what};
    }
  }
  if (Problem p = CheckKeySource(model.api_key, at + ".api_key")) return p;
  if (Problem p = CheckWeight(model.weight, at + ".weight")) return p;
  if (Problem p = CheckTimeouts(model, at)) return p;
  if (Problem p = CheckPrices(model, at)) return p;
  return CheckHeaders(model, at);
}

Problem CheckMetering(const PoolJob& pool, const std::string& at) {
  if (!pool.profile.empty() && pool.profile != "auto" &&
      quota::FindProfile(pool.profile) == nullptr) {
    std::vector<std::string> names = {"auto"};
    for (const quota::Profile& profile : quota::AllProfiles()) names.emplace_back(profile.name);
    return FieldError{at + ".profile",
                      absl::StrCat("'", ExcerptUtf8(pool.profile, 40), "' is no known profile; ",
                                   DidYouMean(pool.profile, names))};
  }
  static constexpr absl::string_view kWindows[] = {"continuous", "minute", "10s", "1s"};
  const std::pair<absl::string_view, const std::string*> windows[] = {
      {".window", &pool.window}, {".requests_window", &pool.requests_window}};
  for (const auto& [name, window] : windows) {
    if (window->empty() || quota::ParseCountedOver(*window)) continue;
    return FieldError{absl::StrCat(at, name),
                      absl::StrCat("'", ExcerptUtf8(*window, 40), "' is no window; ",
                                   DidYouMean(*window, kWindows))};
  }
  static constexpr absl::string_view kCharges[] = {"actuals", "larger", "sum"};
  if (!pool.charge.empty() && !quota::ParseCharging(pool.charge)) {
    return FieldError{at + ".charge",
                      absl::StrCat("'", ExcerptUtf8(pool.charge, 40), "' is no way to charge; ",
                                   DidYouMean(pool.charge, kCharges))};
  }
  if (pool.utilisation != 0 && !(pool.utilisation >= 0.1 && pool.utilisation <= 1)) {
    return FieldError{at + ".utilisation", "must be from 0.1 to 1"};
  }
  if (pool.ramp_growth != 0 && !(pool.ramp_growth >= 0.001 && pool.ramp_growth <= 1)) {
    return FieldError{at + ".ramp_growth", "must be from 0.001 (0.1 % a minute) to 1"};
  }
  if (pool.ramp_start && (*pool.ramp_start < 0 || *pool.ramp_start > 1'000'000'000'000)) {
    return FieldError{at + ".ramp_start", "must be from 0 (no ramp) to 1000G"};
  }
  for (const auto& [name, time] :
       {std::pair(".guard", pool.guard), std::pair(".burst", pool.burst)}) {
    if (time && (*time < absl::ZeroDuration() || *time > absl::Seconds(60))) {
      return FieldError{at + name, "must be from 0s to 60s"};
    }
  }
  return std::nullopt;
}

Problem CheckPool(const PoolJob& pool, const std::string& at) {
  if (Problem p = CheckName(at, pool.name)) return p;
  const std::pair<absl::string_view, int64_t> limits[] = {
      {"requests_per_minute", pool.requests_per_minute},
      {"tokens_per_minute", pool.tokens_per_minute},
      {"input_tokens_per_minute", pool.input_tokens_per_minute},
      {"output_tokens_per_minute", pool.output_tokens_per_minute},
      {"requests_per_day", pool.requests_per_day},
      {"tokens_per_day", pool.tokens_per_day}};
  for (const auto& [name, limit] : limits) {
    if (limit < 0 || limit > 1'000'000'000'000) {
      return FieldError{absl::StrCat(at, ".", name), "must be from 0 (no limit) to 1000G"};
    }
  }
  if (pool.max_in_flight < 0 || pool.max_in_flight > kMaxInFlight) {
    return FieldError{at + ".max_in_flight",
                      absl::StrCat("must be from 0 (no limit) to ", kMaxInFlight)};
  }
  return CheckMetering(pool, at);
}

Problem CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return FieldError{std::string(field), absl::StrCat("must be from ", low, " to ", high)};
}

Problem CheckDelay(absl::string_view field, absl::Duration value, absl::Duration low,
                   absl::Duration high) {
  if (value >= low && value <= high) return std::nullopt;
  return FieldError{std::string(field), absl::StrCat("must be from ", headrace::FormatDuration(low),
                                                     " to ", headrace::FormatDuration(high))};
}

Problem CheckText(absl::string_view field, absl::string_view text) {
  if (IsValidUtf8(text)) return std::nullopt;
  return FieldError{std::string(field), "is not UTF-8"};
}

Problem CheckTexts(const JobConfig& job) {
  if (Problem p = CheckText("dataset.path", job.dataset.path)) return p;
  if (Problem p = CheckText("dataset.prompt", job.dataset.prompt)) return p;
  if (Problem p = CheckText("dataset.system", job.dataset.system)) return p;
  if (Problem p = CheckText("dataset.expected", job.dataset.expected)) return p;
  if (Problem p = CheckText("dataset.id", job.dataset.id)) return p;
  return CheckText("output.dir", job.output_dir);
}

Problem CheckDataset(const DatasetJob& dataset) {
  if (Problem p = CheckKeySource(dataset.api_key, "dataset.api_key")) return p;
  if (!IsUrl(dataset.path)) return std::nullopt;
  const std::string what = DatasetUrlProblem(dataset.path);
  if (what.empty()) return std::nullopt;
  return FieldError{"dataset.path", what};
}

Problem CheckNumbers(const JobConfig& job) {
  if (Problem p = CheckWeight(job.job_weight, "job_weight")) return p;
  if (job.dataset.limit < 0) return FieldError{"dataset.limit", "must be 0 (all) or more"};
  if (Problem p = CheckRange("batch.size", job.batch_size, 1, kMaxBatchSize)) return p;
  if (Problem p =
          CheckDelay("batch.deadline", job.batch_deadline, absl::Seconds(1), absl::Hours(24))) {
    return p;
  }
  if (Problem p = CheckRange("retry.attempts", job.attempts, 1, kMaxAttempts)) return p;
  const absl::Duration zero = absl::ZeroDuration();
  if (Problem p = CheckDelay("retry.first_delay", job.first_delay, zero, absl::Hours(1))) return p;
  if (Problem p = CheckDelay("retry.max_delay", job.max_delay, zero, absl::Hours(1))) return p;
  if (Problem p = CheckDelay("retry.jitter", job.jitter, zero, absl::Hours(1))) return p;
  if (Problem p = CheckDelay("retry.max_retry_after", job.max_retry_after, zero, absl::Hours(24))) {
    return p;
  }
  if (Problem p = CheckRange("passes", job.passes, 1, kMaxPasses)) return p;
  if (job.max_failed.count < 0) return FieldError{"max_failed", "must be 0 or more"};
  if (job.max_failed.share.has_value() &&
      !(*job.max_failed.share >= 0 && *job.max_failed.share <= 1)) {
    return FieldError{"max_failed", "must be from 0% to 100%"};
  }
  if (!(job.max_cost_usd >= 0) || !std::isfinite(job.max_cost_usd)) {
    return FieldError{"max_cost", "must be 0 (no budget) or an amount in USD"};
  }
  return CheckRange("max_in_flight", job.max_in_flight, 0, kMaxInFlight);
}

Problem CheckReferences(const JobConfig& job) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const PoolJob& pool : job.pools) {
    if (pool.name.empty()) return FieldError{"pools", "has a pool without a name"};
    if (!seen.insert(pool.name).second) {
      return FieldError{absl::StrCat("pools.", pool.name), "is given twice"};
    }
    names.push_back(pool.name);
  }
  for (size_t i = 0; i < job.models.size(); ++i) {
    const std::string& pool = job.models[i].pool;
    if (pool.empty() || seen.count(pool) > 0) continue;
    const std::string what = names.empty() ? "the job has no pools" : DidYouMean(pool, names);
    return FieldError{absl::StrCat("models[", i, "].pool"),
                      absl::StrCat("'", ExcerptUtf8(pool, 40), "' is no pool of this job; ", what)};
  }
  std::set<std::string> labels;
  for (size_t i = 0; i < job.models.size(); ++i) {
    const std::string& label = job.models[i].label;
    if (!label.empty() && !labels.insert(label).second) {
      return FieldError{absl::StrCat("models[", i, "].label"),
                        "is the label of an earlier model too; labels are unique in a job"};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<FieldError> FindBadValue(const JobConfig& job) {
  if (!job.name.empty() && (job.name.size() > kMaxNameBytes || !IsFileWord(job.name))) {
    return FieldError{
        "job", absl::StrCat("must be letters, digits, '.', '_' and '-', at most ", kMaxNameBytes,
                            " of them, since it names the run directory")};
  }
  if (Problem p = CheckTexts(job)) return p;
  if (Problem p = CheckDataset(job.dataset)) return p;
  if (job.pools.size() > kMaxPools) return FieldError{"pools", "are more than 1000"};
  for (const PoolJob& pool : job.pools) {
    if (Problem p = CheckPool(pool, absl::StrCat("pools.", pool.name))) return p;
  }
  if (job.models.size() > kMaxModels) return FieldError{"models", "are more than 1000"};
  for (size_t i = 0; i < job.models.size(); ++i) {
    if (Problem p = CheckModel(job.models[i], absl::StrCat("models[", i, "]"))) return p;
  }
  return CheckNumbers(job);
}

std::optional<FieldError> FindGap(const JobConfig& job) {
  if (job.dataset.path.empty()) return FieldError{"dataset.path", "is missing"};
  if (!IsUrl(job.dataset.path) && job.dataset.api_key != ApiKeySource()) {
    return FieldError{"dataset.api_key", "is for a URL, and dataset.path is a file"};
  }
  if (job.models.empty()) return FieldError{"models", "are missing: give at least one model"};
  for (size_t i = 0; i < job.models.size(); ++i) {
    const std::string at = absl::StrCat("models[", i, "]");
    if (job.models[i].name.empty()) return FieldError{at + ".name", "is missing"};
    if (job.models[i].endpoint.empty()) {
      return FieldError{at + ".endpoint",
                        "is missing: the base URL of the API, like "
                        "https://api.openai.com/v1"};
    }
    if (job.models[i].pool.empty() && job.pools.size() > 1) {
      return FieldError{at + ".pool", "is missing, and the job has several pools"};
    }
    if (job.max_cost_usd > 0 && (!job.models[i].price_input_usd.has_value() ||
                                 !job.models[i].price_output_usd.has_value())) {
      return FieldError{at + ".price",
                        "is missing: max_cost needs the price of every model, like "
                        "price: {input: 0.15, output: 0.6}"};
    }
  }
  if (job.max_delay < job.first_delay) {
    return FieldError{"retry.max_delay", "is shorter than retry.first_delay"};
  }
  return CheckReferences(job);
}

}  // namespace headrace
