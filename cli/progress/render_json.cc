#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "cli/progress/render.h"
#include "common/base/json_writer.h"

namespace headrace {
namespace {

void OptionalDuration(absl::string_view key, const std::optional<absl::Duration>& duration,
                      absl::Duration unit, int digits, JsonWriter* json) {
  json->Key(key);
  if (duration.has_value()) {
    json->Fixed(absl::FDivDuration(*duration, unit), digits);
  } else {
    json->Null();
  }
}

void WriteItems(const ProgressSnapshot& s, JsonWriter* json) {
  json->Key("items").BeginObject();
  json->Key("total").Int(s.total);
  json->Key("done").Int(s.done);
  json->Key("ok").Int(s.ok);
  json->Key("failed").Int(s.failed);
  json->Key("deferred").Int(s.deferred);
  json->EndObject();
  json->Key("items_per_minute").Fixed(s.items_per_minute, 1);
}

void WritePools(const ProgressSnapshot& s, JsonWriter* json) {
  json->Key("pools").BeginArray();
  for (const PoolProgress& pool : s.pools) {
    json->BeginObject();
    json->Key("name").String(pool.name);
    json->Key("tokens_per_minute").Fixed(pool.tokens_per_minute, 0);
    json->Key("tokens_limit").Int(pool.tokens_limit);
    json->Key("requests_per_minute").Fixed(pool.requests_per_minute, 0);
    json->Key("requests_limit").Int(pool.requests_limit);
    if (pool.in_flight_limit > 0) {
      json->Key("in_flight_limit").Int(pool.in_flight_limit);
      json->Key("in_flight_why").String(pool.in_flight_why);
    }
    json->EndObject();
  }
  json->EndArray();
}

void WriteModels(const ProgressSnapshot& s, JsonWriter* json) {
  json->Key("models").BeginArray();
  for (const ModelProgress& model : s.models) {
    json->BeginObject();
    json->Key("label").String(model.label);
    json->Key("total").Int(model.total);
    json->Key("done").Int(model.done);
    json->Key("failed").Int(model.failed);
    json->EndObject();
  }
  json->EndArray();
}

void WriteTraffic(const ProgressSnapshot& s, JsonWriter* json) {
  json->Key("workers").Int(s.workers);
  json->Key("in_flight").Int(s.in_flight);
  json->Key("max_in_flight").Int(s.max_in_flight);
  json->Key("auto_in_flight").Bool(s.auto_in_flight);
  json->Key("gate_waiting").Int(s.gate_waiting);
  json->Key("ms").BeginObject();
  OptionalDuration("queue_p50", s.queue_p50, absl::Milliseconds(1), 3, json);
  OptionalDuration("queue_p95", s.queue_p95, absl::Milliseconds(1), 3, json);
  OptionalDuration("network_p50", s.network_p50, absl::Milliseconds(1), 3, json);
  OptionalDuration("network_p95", s.network_p95, absl::Milliseconds(1), 3, json);
  json->EndObject();
  json->Key("throttled").Int(s.throttled);
  json->Key("retries").Int(s.retries);
  json->Key("failures").BeginObject();
  for (const FailureCount& failure : s.failures) {
    json->Key(ErrorClassName(failure.error_class)).Int(failure.items);
  }
  json->EndObject();
}

}  // namespace

std::string RenderJsonLine(const ProgressSnapshot& s) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Key("event").String(s.finished ? "finished" : "progress");
  json.Key("job").String(s.job);
  json.Key("elapsed_s").Fixed(absl::ToDoubleSeconds(s.elapsed), 3);
  json.Key("pass").Uint(s.pass);
  json.Key("passes").Uint(s.passes);
  WriteItems(s, &json);
  OptionalDuration("eta_s", s.eta, absl::Seconds(1), 0, &json);
  WritePools(s, &json);
  WriteModels(s, &json);
  WriteTraffic(s, &json);
  json.Key("cost_usd");
  if (s.cost_usd.has_value()) {
    json.Fixed(*s.cost_usd, 6);
  } else {
    json.Null();
  }
  json.Key("limited_by").String(s.limited_by);
  json.Key("waiting_for").String(s.waiting_for);
  json.EndObject();
  return out;
}

}  // namespace headrace
