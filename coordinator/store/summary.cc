#include "coordinator/store/summary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/json_writer.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "coordinator/store/run_reader.h"

namespace headrace {
namespace {

constexpr int kRatioDigits = 6;
constexpr int kMsDigits = 3;
constexpr int kUsdDigits = 6;
constexpr size_t kMaxExampleBytes = 400;

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

void WriteRatio(absl::string_view key, int64_t part, int64_t whole, JsonWriter* json) {
  json->Key(key);
  if (whole == 0) {
    json->Null();
  } else {
    json->Fixed(static_cast<double>(part) / static_cast<double>(whole), kRatioDigits);
  }
}

void WriteLatency(absl::string_view key, const Histogram& us, JsonWriter* json) {
  json->Key(key);
  if (us.count() == 0) {
    json->Null();
    return;
  }
  const auto ms = [&](absl::string_view name, double value_us) {
    json->Key(name).Fixed(value_us / 1000, kMsDigits);
  };
  json->BeginObject();
  json->Key("count").Int(us.count());
  ms("mean", us.mean());
  ms("p50", static_cast<double>(us.Quantile(0.5)));
  ms("p90", static_cast<double>(us.Quantile(0.9)));
  ms("p95", static_cast<double>(us.Quantile(0.95)));
  ms("p99", static_cast<double>(us.Quantile(0.99)));
  ms("max", static_cast<double>(us.max()));
  json->EndObject();
}

void WriteJsonKinds(const Tally& tally, JsonWriter* json) {
  json->Key("json").BeginObject();
  for (int kind = 0; kind < kJsonKinds; ++kind) {
    json->Key(JsonKindName(static_cast<JsonKind>(kind)))
        .Int(tally.json_kinds[static_cast<size_t>(kind)]);
  }
  json->Key("white_space_tails").Int(tally.json_white_space_tails);
  json->EndObject();
}

// The keys of a tally, within an object that is open.
void WriteTally(const Tally& tally, bool kinds, JsonWriter* json) {
  json->Key("items").BeginObject();
  json->Key("total").Int(tally.items);
  json->Key("ok").Int(tally.ok);
  json->Key("failed").Int(tally.failed);
  json->Key("missing").Int(tally.missing());
  json->EndObject();
  // Both, because failures that leave the denominator look like success.
  json->Key("ratios").BeginObject();
  WriteRatio("ok_of_all", tally.ok, tally.items, json);
  WriteRatio("ok_of_finished", tally.ok, tally.ok + tally.failed, json);
  json->EndObject();
  json->Key("failed_by_class").BeginObject();
  for (const auto& [error_class, count] : tally.failed_by_class) {
    json->Key(ErrorClassName(error_class)).Int(count);
  }
  json->EndObject();
  json->Key("attempts").Int(tally.attempts);
  json->Key("possibly_billed_attempts").Int(tally.possibly_billed);
  json->Key("tokens").BeginObject();
  json->Key("prompt").Int(tally.prompt_tokens);
  json->Key("completion").Int(tally.completion_tokens);
  json->Key("cached").Int(tally.cached_tokens);
  json->Key("reasoning").Int(tally.reasoning_tokens);
  json->Key("items_without_usage").Int(tally.items_without_usage);
  json->EndObject();
  json->Key("cost_usd");
  if (tally.cost_usd.has_value()) {
    json->Fixed(*tally.cost_usd, kUsdDigits);
  } else {
    json->Null();
  }
  json->Key("latency_ms").BeginObject();
  WriteLatency("total", tally.total_us, json);
  WriteLatency("queue", tally.queue_us, json);
  WriteLatency("network", tally.network_us, json);
  WriteLatency("first_token", tally.first_token_us, json);
  json->EndObject();
  if (kinds) WriteJsonKinds(tally, json);
}

}  // namespace

void Tally::Add(const ResultFields& line) {
  if (line.error_class == ErrorClass::kNone) {
    ++ok;
    total_us.Record(absl::ToInt64Microseconds(line.times.total));
    queue_us.Record(absl::ToInt64Microseconds(line.times.queue));
    network_us.Record(absl::ToInt64Microseconds(line.times.network));
    if (line.times.first_token.has_value()) {
      first_token_us.Record(absl::ToInt64Microseconds(*line.times.first_token));
    }
  } else {
    ++failed;
    ++failed_by_class[line.error_class];
    std::string& example = example_by_class[line.error_class];
    if (example.empty()) example = ExcerptUtf8(line.error_message, kMaxExampleBytes);
  }
  attempts += line.attempts;
  possibly_billed += line.possibly_billed;
  prompt_tokens += line.usage.prompt_tokens.value_or(0);
  completion_tokens += line.usage.completion_tokens.value_or(0);
  cached_tokens += line.usage.cached_tokens.value_or(0);
  reasoning_tokens += line.usage.reasoning_tokens.value_or(0);
  const bool has_usage =
      line.usage.prompt_tokens.has_value() || line.usage.completion_tokens.has_value();
  if (line.http_status == 200 && !has_usage) ++items_without_usage;
}

void Tally::AddJson(const JsonAnswer& answer) {
  ++json_kinds[static_cast<size_t>(answer.kind)];
  json_white_space_tails += answer.white_space_tail;
}

void Tally::Merge(const Tally& other) {
  items += other.items;
  ok += other.ok;
  failed += other.failed;
  for (const auto& [error_class, count] : other.failed_by_class) {
    failed_by_class[error_class] += count;
  }
  example_by_class.insert(other.example_by_class.begin(), other.example_by_class.end());
  attempts += other.attempts;
  possibly_billed += other.possibly_billed;
  prompt_tokens += other.prompt_tokens;
  completion_tokens += other.completion_tokens;
  cached_tokens += other.cached_tokens;
  reasoning_tokens += other.reasoning_tokens;
  items_without_usage += other.items_without_usage;
  if (other.cost_usd.has_value()) cost_usd = cost_usd.value_or(0) + *other.cost_usd;
  for (size_t kind = 0; kind < json_kinds.size(); ++kind) {
    json_kinds[kind] += other.json_kinds[kind];
  }
  json_white_space_tails += other.json_white_space_tails;
  total_us.Merge(other.total_us);
  queue_us.Merge(other.queue_us);
  network_us.Merge(other.network_us);
  first_token_us.Merge(other.first_token_us);
}

std::optional<double> CostUsd(const Tally& tally, const TokenPrices& prices) {
  if (!prices.input_usd.has_value() || !prices.output_usd.has_value()) return std::nullopt;
  const int64_t cached = std::min(tally.cached_tokens, tally.prompt_tokens);
  const double cached_usd = prices.cached_usd.value_or(*prices.input_usd);
  const double micro_usd = static_cast<double>(tally.prompt_tokens - cached) * *prices.input_usd +
                           static_cast<double>(cached) * cached_usd +
                           static_cast<double>(tally.completion_tokens) * *prices.output_usd;
  return micro_usd / 1e6;
}

absl::string_view RunStateName(RunState state) {
  switch (state) {
    case RunState::kComplete:
      return "complete";
    case RunState::kInterrupted:
      return "interrupted";
    case RunState::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string SummaryJson(const RunSummary& summary) {
  Tally all;
  for (const RunSummary::Model& model : summary.models) all.Merge(model.tally);
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Key("format").Int(1);
  json.Key("headrace_version").String(summary.version);
  json.Key("job").String(summary.job);
  json.Key("state").String(RunStateName(summary.state));
  json.Key("reason").String(summary.reason);
  json.Key("exit_code").Int(summary.exit_code);
  json.Key("dataset").BeginObject();
  json.Key("path").String(summary.dataset_path);
  json.Key("sha256").String(summary.dataset_sha256);
  json.Key("rows").Int(summary.rows);
  json.EndObject();
  json.Key("started").String(Rfc3339(summary.started));
  json.Key("ended").String(Rfc3339(summary.ended));
  const double active_seconds = absl::ToDoubleSeconds(summary.active);
  json.Key("active_seconds").Fixed(active_seconds, kMsDigits);
  json.Key("starts").Int(summary.starts);
  json.Key("passes").Int(summary.passes);
  json.Key("throttled_answers").Int(summary.throttled);
  json.Key("finished_items_per_minute");
  if (active_seconds > 0) {
    json.Fixed(static_cast<double>(all.ok + all.failed) * 60 / active_seconds, kMsDigits);
  } else {
    json.Null();
  }
  if (!summary.in_flight.empty()) {
    json.Key("in_flight").BeginArray();
    for (const RunSummary::InFlight& pool : summary.in_flight) {
      json.BeginObject();
      json.Key("pool").String(pool.pool);
      json.Key("found").Int(pool.found);
      json.Key("why").String(pool.why);
      json.EndObject();
    }
    json.EndArray();
  }
  WriteTally(all, summary.json, &json);
  json.Key("models").BeginArray();
  for (const RunSummary::Model& model : summary.models) {
    json.BeginObject();
    json.Key("name").String(model.name);
    WriteTally(model.tally, summary.json, &json);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.push_back('\n');
  return out;
}

absl::Status WriteSummary(Disk* disk, const std::string& dir, const RunSummary& summary) {
  return disk->WriteWhole(absl::StrCat(dir, "/", kSummaryFile), SummaryJson(summary));
}

absl::StatusOr<RunTally> RunTally::Make(Disk* disk, const std::string& dir,
                                        std::vector<TokenPrices> prices, bool json) {
  HR_ASSIGN_OR_RETURN(const RunIdentity identity, ReadRunIdentity(disk, dir));
  if (identity.models != static_cast<int64_t>(prices.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, " is a run of ", identity.models, " models, not of ", prices.size()));
  }
  RunTally tally(std::move(prices), identity.rows);
  if (json) tally.answers_ = std::make_unique<AnswerReader>();
  return tally;
}

RunTally::RunTally(std::vector<TokenPrices> prices, int64_t rows)
    : prices_(std::move(prices)), tallies_(prices_.size()) {
  for (Tally& tally : tallies_) tally.items = rows;
}

void RunTally::Add(const ResultLineKey& key, const ResultFields* fields) {
  Tally& tally = tallies_[key.item.value() % tallies_.size()];
  if (fields != nullptr) {
    tally.Add(*fields);
    if (answers_ != nullptr && fields->error_class == ErrorClass::kNone) {
      std::string text;
      tally.AddJson(answers_->ReadJson(fields->body, fields->finish_reason, &text));
    }
  } else {
    ResultFields by_key;
    by_key.error_class = key.error_class;
    tally.Add(by_key);
  }
}

std::vector<Tally> RunTally::Finish() && {
  for (size_t i = 0; i < tallies_.size(); ++i) {
    tallies_[i].cost_usd = CostUsd(tallies_[i], prices_[i]);
  }
  return std::move(tallies_);
}

absl::StatusOr<std::vector<Tally>> TallyFromLogs(Disk* disk, const std::string& dir,
                                                 std::vector<TokenPrices> prices) {
  HR_ASSIGN_OR_RETURN(RunTally tally, RunTally::Make(disk, dir, std::move(prices)));
  const absl::StatusOr<RunCheck> check =
      ReadRunFields(disk, dir, [&](const ResultLineKey& key, const ResultFields* fields) {
        tally.Add(key, fields);
        return absl::OkStatus();
      });
  if (!check.ok()) return check.status();
  return std::move(tally).Finish();
}

}  // namespace headrace
