#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/json_writer.h"
#include "coordinator/job/job.h"

namespace headrace {
namespace {

// `text` as it is where that is surely a plain word of YAML, else as a JSON string, which is a
// double-quoted scalar of YAML (YAML 1.2 section 7.3.1).
std::string Text(absl::string_view text) {
  bool plain = !text.empty() && text.size() < 100 &&
               absl::ascii_isalpha(static_cast<unsigned char>(text[0]));
  for (char c : text) {
    plain = plain && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                      c == '/' || c == '.');
  }
  const std::string lower = absl::AsciiStrToLower(text);
  for (absl::string_view word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    plain = plain && lower != word;
  }
  if (plain) return std::string(text);
  std::string out;
  AppendJsonString(text, &out);
  return out;
}

// Exact, unlike FormatDuration.
std::string Exact(absl::Duration duration) {
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  if (nanos % 1'000'000'000 == 0) return absl::StrCat(nanos / 1'000'000'000, "s");
  if (nanos % 1'000'000 == 0) return absl::StrCat(nanos / 1'000'000, "ms");
  if (nanos % 1'000 == 0) return absl::StrCat(nanos / 1'000, "us");
  return absl::StrCat(nanos, "ns");
}

std::string Number(double value) {
  std::string out;
  JsonWriter(&out).Double(value);
  return out;
}

std::string Flag(bool value) { return value ? "true" : "false"; }

std::string Limit(const FailureLimit& limit) {
  if (!limit.share.has_value()) return absl::StrCat(limit.count);
  // The fewest digits that read back as the same share.
  std::string percent;
  for (int digits = 1; digits <= 17; ++digits) {
    percent = absl::StrFormat("%.*g", digits, *limit.share * 100);
    if (std::strtod(percent.c_str(), nullptr) / 100 == *limit.share) break;
  }
  return absl::StrCat(percent, "%");
}

class Writer {
 public:
  void Line(int indent, absl::string_view key, absl::string_view value) {
    absl::StrAppend(&out_, std::string(indent, ' '), key, ":", value.empty() ? "" : " ", value,
                    "\n");
  }
  // Left out when empty.
  void OptionalText(int indent, absl::string_view key, absl::string_view value) {
    if (!value.empty()) Line(indent, key, Text(value));
  }
  void Raw(absl::string_view text) { absl::StrAppend(&out_, text); }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

void WriteApiKey(int indent, const ApiKeySource& source, Writer* out) {
  if (source == ApiKeySource()) return;
  out->Line(indent, "api_key", "");
  out->OptionalText(indent + 2, "env", source.env);
  out->OptionalText(indent + 2, "file", source.file);
}

void WriteDataset(const DatasetJob& dataset, Writer* out) {
  out->Line(0, "dataset", "");
  out->Line(2, "path", Text(dataset.path));
  out->OptionalText(2, "prompt", dataset.prompt);
  out->OptionalText(2, "system", dataset.system);
  out->OptionalText(2, "expected", dataset.expected);
  out->OptionalText(2, "id", dataset.id);
  out->Line(2, "limit", absl::StrCat(dataset.limit));
  if (dataset.order != RowOrdering::kFile) out->Line(2, "order", RowOrderingName(dataset.order));
  WriteApiKey(2, dataset.api_key, out);
}

// Of these only what was given: the rest is the profile's.
void WriteMetering(const PoolJob& pool, Writer* out) {
  if (pool.requests_per_day > 0) {
    out->Line(4, "requests_per_day", absl::StrCat(pool.requests_per_day));
  }
  if (pool.tokens_per_day > 0) out->Line(4, "tokens_per_day", absl::StrCat(pool.tokens_per_day));
  out->OptionalText(4, "profile", pool.profile);
  out->OptionalText(4, "window", pool.window);
  out->OptionalText(4, "requests_window", pool.requests_window);
  if (pool.guard) out->Line(4, "guard", Exact(*pool.guard));
  if (pool.burst) out->Line(4, "burst", Exact(*pool.burst));
  if (pool.utilisation > 0) out->Line(4, "utilisation", Number(pool.utilisation));
  if (pool.ramp_start) out->Line(4, "ramp_start", absl::StrCat(*pool.ramp_start));
  if (pool.ramp_growth > 0) out->Line(4, "ramp_growth", Number(pool.ramp_growth));
  out->OptionalText(4, "charge", pool.charge);
}

std::string InFlight(int64_t count, bool is_auto) { return is_auto ? "auto" : absl::StrCat(count); }

void WritePools(const std::vector<PoolJob>& pools, Writer* out) {
  if (pools.empty()) return;
  out->Line(0, "pools", "");
  for (const PoolJob& pool : pools) {
    out->Line(2, Text(pool.name), "");
    out->Line(4, "requests_per_minute", absl::StrCat(pool.requests_per_minute));
    out->Line(4, "tokens_per_minute", absl::StrCat(pool.tokens_per_minute));
    out->Line(4, "input_tokens_per_minute", absl::StrCat(pool.input_tokens_per_minute));
    out->Line(4, "output_tokens_per_minute", absl::StrCat(pool.output_tokens_per_minute));
    out->Line(4, "max_in_flight", InFlight(pool.max_in_flight, pool.auto_in_flight));
    WriteMetering(pool, out);
  }
}

void WritePrice(const ModelJob& model, Writer* out) {
  if (!model.price_input_usd && !model.price_output_usd && !model.price_cached_usd) return;
  out->Line(4, "price", "");
  if (model.price_input_usd) out->Line(6, "input", Number(*model.price_input_usd));
  if (model.price_output_usd) out->Line(6, "output", Number(*model.price_output_usd));
  if (model.price_cached_usd) out->Line(6, "cached", Number(*model.price_cached_usd));
}

void WriteModel(const ModelJob& model, Writer* out) {
  out->Raw("  - ");
  out->Line(0, "name", Text(model.name));
  if (model.label != model.name) out->OptionalText(4, "label", model.label);
  out->Line(4, "provider", Text(model.provider));
  out->Line(4, "endpoint", Text(model.endpoint));
  WriteApiKey(4, model.api_key, out);
  out->OptionalText(4, "pool", model.pool);
  out->Line(4, "params", model.params_json.empty() ? "{}" : model.params_json);
  out->Line(4, "stream", Flag(model.stream));
  if (!model.check_schema) out->Line(4, "check_schema", Flag(false));
  out->Line(4, "weight", Number(model.weight));
  WritePrice(model, out);
  out->Line(4, "connect_timeout", Exact(model.connect_timeout));
  out->Line(4, "first_byte_timeout", Exact(model.first_byte_timeout));
  out->Line(4, "silence_timeout", Exact(model.silence_timeout));
  out->Line(4, "progress_timeout", Exact(model.progress_timeout));
  out->Line(4, "total_timeout", Exact(model.total_timeout));
  out->OptionalText(4, "ca_file", model.ca_file);
  if (!model.headers.empty()) {
    out->Line(4, "headers", "");
    for (const auto& [name, value] : model.headers) {
      std::string quoted;
      AppendJsonString(value, &quoted);
      out->Line(6, Text(name), quoted);
    }
  }
}

}  // namespace

std::string ToYaml(const JobConfig& job) {
  Writer out;
  out.OptionalText(0, "job", job.name);
  out.Line(0, "job_weight", Number(job.job_weight));
  WriteDataset(job.dataset, &out);
  WritePools(job.pools, &out);
  if (!job.models.empty()) out.Line(0, "models", "");
  for (const ModelJob& model : job.models) WriteModel(model, &out);
  out.Line(0, "batch", "");
  out.Line(2, "size", absl::StrCat(job.batch_size));
  out.Line(2, "deadline", Exact(job.batch_deadline));
  out.Line(2, "on_failure", OnFailureName(job.on_failure));
  out.Line(0, "retry", "");
  out.Line(2, "attempts", absl::StrCat(job.attempts));
  out.Line(2, "first_delay", Exact(job.first_delay));
  out.Line(2, "max_delay", Exact(job.max_delay));
  out.Line(2, "jitter", Exact(job.jitter));
  out.Line(2, "max_retry_after", Exact(job.max_retry_after));
  out.Line(0, "passes", absl::StrCat(job.passes));
  out.Line(0, "stragglers", "");
  out.Line(2, "split", Flag(job.split_stragglers));
  out.Line(2, "hedge", Flag(job.hedge_stragglers));
  out.Line(0, "max_failed", Limit(job.max_failed));
  out.Line(0, "max_cost", Number(job.max_cost_usd));
  out.Line(0, "max_in_flight", InFlight(job.max_in_flight, job.auto_in_flight));
  out.Line(0, "output", "");
  out.OptionalText(2, "dir", job.output_dir);
  out.Line(2, "csv", Flag(job.csv));
  out.Line(2, "csv_safe", Flag(job.csv_safe));
  if (job.json) out.Line(2, "json", Flag(true));
  return out.Take();
}

}  // namespace headrace
