#include "simulator/truth.h"

#include <algorithm>

#include "common/base/json_writer.h"

namespace headrace::simulator {

int64_t Truth::total_rejections() const {
  int64_t sum = 0;
  for (const int64_t count : rejections) sum += count;
  return sum;
}

uint32_t TruthKeeper::SeeIdentity(uint64_t identity) {
  auto it = identities_.find(identity);
  if (it == identities_.end()) {
    if (identities_.size() < kMaxIdentities) identities_[identity].times = 1;
    return 0;
  }
  ++truth_.repeats;
  return it->second.times++;
}

void TruthKeeper::CompleteIdentity(uint64_t identity) {
  ++truth_.completions;
  auto it = identities_.find(identity);
  if (it != identities_.end() && it->second.completions++ > 0) ++truth_.duplicates;
}

void TruthKeeper::BeginCall() {
  ++truth_.requests;
  truth_.peak_in_flight = std::max(truth_.peak_in_flight, ++truth_.in_flight);
}

void TruthKeeper::EndCall() { --truth_.in_flight; }

Truth::Second& TruthKeeper::At(MonoTime now) {
  const int64_t second = std::max<int64_t>((now.nanos() - start_.nanos()) / 1'000'000'000, 0);
  const size_t index = static_cast<size_t>(second) % kMaxSeconds;
  if (index >= ring_.size()) ring_.resize(index + 1);
  Truth::Second& entry = ring_[index];
  if (entry.second != second) entry = {.second = second};
  return entry;
}

void TruthKeeper::Admitted(MonoTime now, int64_t tokens) {
  ++truth_.admitted;
  Truth::Second& second = At(now);
  ++second.requests;
  second.tokens += tokens;
}

void TruthKeeper::Rejected(MonoTime now, LimitKind kind, bool never) {
  ++truth_.rejections[static_cast<size_t>(kind)];
  if (never) ++truth_.never_fits;
  ++At(now).rejected;
}

Truth TruthKeeper::Snapshot() const {
  Truth truth = truth_;
  for (const Truth::Second& second : ring_) {
    if (second.second >= 0) truth.seconds.push_back(second);
  }
  std::sort(truth.seconds.begin(), truth.seconds.end(),
            [](const Truth::Second& a, const Truth::Second& b) { return a.second < b.second; });
  return truth;
}

void TruthKeeper::Reset(MonoTime now) {
  Truth fresh;
  fresh.in_flight = fresh.peak_in_flight = truth_.in_flight;
  fresh.streams = fresh.peak_streams = truth_.streams;
  fresh.connections = fresh.peak_connections = truth_.connections;
  truth_ = fresh;
  ring_.clear();
  identities_.clear();
  start_ = now;
}

std::string TruthJson(const Truth& t) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  const std::pair<absl::string_view, int64_t> numbers[] = {
      {"requests", t.requests},
      {"in_flight", t.in_flight},
      {"peak_in_flight", t.peak_in_flight},
      {"streams", t.streams},
      {"peak_streams", t.peak_streams},
      {"peak_served", t.peak_served},
      {"admitted", t.admitted},
      {"completions", t.completions},
      {"repeats", t.repeats},
      {"duplicates", t.duplicates},
      {"bad_requests", t.bad_requests},
      {"never_fits", t.never_fits},
      {"rejected", t.total_rejections()},
      {"input_tokens", t.input_tokens},
      {"output_tokens", t.output_tokens},
      {"events_sent", t.events_sent},
      {"barriers_released", t.barriers_released},
      {"barriers_timed_out", t.barriers_timed_out},
      {"connections", t.connections},
      {"peak_connections", t.peak_connections},
      {"connections_total", t.connections_total},
      {"h2_connections_total", t.h2_connections_total}};
  for (const auto& [name, value] : numbers) json.Key(name).Int(value);
  json.Key("rejections").BeginObject();
  for (int i = 0; i < kLimitKindCount; ++i) {
    json.Key(LimitKindName(static_cast<LimitKind>(i))).Int(t.rejections[i]);
  }
  json.EndObject();
  json.Key("cancelled").BeginObject();
  json.Key("rst_stream").Int(t.cancelled[0]);
  json.Key("closed").Int(t.cancelled[1]);
  json.Key("reset").Int(t.cancelled[2]);
  json.EndObject();
  json.Key("faults").BeginObject();
  for (const FaultInfo& info : AllFaults()) {
    const int64_t count = t.faults[static_cast<size_t>(info.fault)];
    if (count > 0) json.Key(info.name).Int(count);
  }
  json.EndObject();
  json.Key("seconds").BeginArray();
  for (const Truth::Second& second : t.seconds) {
    json.BeginObject();
    json.Key("s").Int(second.second);
    json.Key("requests").Int(second.requests);
    json.Key("tokens").Int(second.tokens);
    json.Key("rejected").Int(second.rejected);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out;
}

}  // namespace headrace::simulator
