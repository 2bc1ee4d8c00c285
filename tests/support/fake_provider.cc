#include "tests/support/fake_provider.h"

#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/quota/memory_store.h"

namespace headrace {
namespace {

std::string ModelOf(absl::string_view body) {
  const size_t at = body.find("model-");
  if (at == absl::string_view::npos) return "";
  return std::string(body.substr(at, body.find('"', at) - at));
}

bool IsOdd(absl::string_view body) {
  const size_t end = body.find(" of many");
  return end != absl::string_view::npos && end > 0 && (body[end - 1] - '0') % 2 == 1;
}

std::string KeyOf(const http::Request& request) {
  const std::string* key = http::FindHeader(request.headers, "idempotency-key");
  return key == nullptr ? "" : *key;
}

void Send(int status, absl::string_view body, http::Receiver* receiver, http::CallResult* result) {
  result->status = status;
  receiver->OnHeaders(status, {{"content-type", "application/json"}});
  receiver->OnBody(body);
}

}  // namespace

FakeProvider::FakeProvider(Reactor* reactor, uint64_t seed, Weather weather)
    : reactor_(reactor),
      random_(seed),
      weather_(std::move(weather)),
      slots_(reactor, weather_.slots > 0 ? weather_.slots : std::numeric_limits<int64_t>::max()),
      begun_(reactor->Now()) {}

Task<bool> FakeProvider::Thaw(const MonoTime* held_until, StopToken stop) {
  while (held_until != nullptr && *held_until > reactor_->Now()) {
    Sleep frozen(reactor_, *held_until, stop);
    const bool slept = co_await frozen;
    if (!slept) co_return false;
  }
  co_return true;
}

Task<http::CallResult> FakeProvider::Call(const http::Request* request, http::Receiver* receiver,
                                          StopToken stop, const MonoTime* held_until) {
  http::CallResult result;
  result.stamps.queued = reactor_->Now();
  const bool awake = co_await Thaw(held_until, stop);
  if (!awake || stop.stopped()) {
    result.end = http::CallEnd::kCancelled;
    result.stamps.end = reactor_->Now();
    co_return result;
  }
  const absl::Duration age = reactor_->Now() - begun_;
  if (age >= weather_.outage_begin && age < weather_.outage_end) {
    result.end = http::CallEnd::kNotSent;
    result.detail = "connection refused";
    result.stamps.end = reactor_->Now();
    co_return result;
  }
  result.stamps.sent = reactor_->Now();
  result.sends = 1;
  result.http_version = 20;
  const int call = ++calls;
  const std::string key = KeyOf(*request);
  if (!key.empty()) ++calls_by_key[key];
  in_flight_peak = std::max(in_flight_peak, ++in_flight);
  const std::string model = ModelOf(request->body);
  auto own = weather_.latency_of.find(model);
  const auto range = own == weather_.latency_of.end() ? weather_.latency : own->second;
  absl::Duration length = random_.Between(range.first, range.second);
  if (random_.Chance(weather_.slow)) length = absl::Hours(1);
  const bool has_slot = co_await slots_.Acquire(stop);
  Sleep answer(reactor_, length, stop);
  const bool came = has_slot && co_await answer;
  if (has_slot) slots_.Release();
  const bool answered = came && co_await Thaw(held_until, stop);
  --in_flight;
  last_answer[model] = reactor_->Now();
  result.stamps.end = reactor_->Now();
  if (!answered) {
    result.end = http::CallEnd::kCancelled;
    co_return result;
  }
  if (random_.Chance(weather_.lost)) {
    result.end = http::CallEnd::kLost;
    result.detail = "the connection broke";
    co_return result;
  }
  result.end = http::CallEnd::kComplete;
  result.stamps.headers = reactor_->Now();
  Answer(call, *request, receiver, &result);
  if (result.status == 200) ++ok_by_key[key];
  co_return result;
}

void FakeProvider::Answer(int call, const http::Request& request, http::Receiver* receiver,
                          http::CallResult* result) {
  if (weather_.unauthorized_after >= 0 && call > weather_.unauthorized_after) {
    Send(
        401,
        R"({"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}})",
        receiver, result);
  } else if (weather_.flaky && seen_.insert(request.body).second) {
    Send(500, R"({"error":{"message":"oops"}})", receiver, result);
  } else if (weather_.broken_row && absl::StrContains(request.body, "question 3 ")) {
    Send(500, R"({"error":{"message":"oops"}})", receiver, result);
  } else if (weather_.refused_row && absl::StrContains(request.body, "question 3 ")) {
    Send(503, R"({"error":{"message":"upstream reset"}})", receiver, result);
  } else if (weather_.two_troubles && IsOdd(request.body)) {
    Send(500, R"({"error":{"message":"oops"}})", receiver, result);
  } else if (weather_.unknown_model || weather_.two_troubles) {
    Send(404, R"({"error":{"message":"no such model","code":"model_not_found"}})", receiver,
         result);
  } else if (weather_.bad_schema) {
    Send(400,
         R"({"error":{"message":"Invalid schema for response_format 'r': In context=('properties',)"
         R"( 'user'), 'additionalProperties' is required to be supplied and to be false.",)"
         R"("type":"invalid_request_error","param":"response_format","code":null}})",
         receiver, result);
  } else if (absl::StrContains(request.body, "question 13 ") && weather_.bad_request > 0) {
    Send(400, R"({"error":{"message":"too long","code":"context_length_exceeded"}})", receiver,
         result);
  } else if (random_.Chance(weather_.rate_limited)) {
    Send(429, R"({"error":{"message":"slow","code":"rate_limit_exceeded"}})", receiver, result);
  } else if (random_.Chance(weather_.server_error)) {
    Send(500, R"({"error":{"message":"oops"}})", receiver, result);
  } else {
    ++answered_ok;
    std::string text = "hi";
    for (const auto& [key, bytes] : weather_.answer_bytes) {
      if (absl::StrContains(request.body, key)) text = std::string(bytes, 'x');
    }
    Send(200,
         absl::StrCat(
             R"({"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":")", text,
             R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}})"),
         receiver, result);
  }
}

// ---------------------------------------------------------------------------------------------

class FakeEnvironment::Engine final : public http::Engine {
 public:
  explicit Engine(FakeEnvironment* environment) : environment_(environment) {}

  Task<http::CallResult> Call(const http::Request* request, http::Receiver* receiver,
                              StopToken stop) override {
    http::CallResult none;
    none.end = http::CallEnd::kCancelled;
    none.stamps.queued = none.stamps.end = environment_->reactor_->Now();
    if (environment_->dead_ || stop.stopped()) co_return none;
    if (environment_->on_call_) environment_->on_call_(KeyOf(*request));
    http::CallResult result =
        co_await environment_->provider_->Call(request, receiver, stop, &environment_->held_until_);
    environment_->paid_ += result.status == 200;
    co_return result;
  }
  http::EngineStats stats() const override { return {}; }
  Task<void> Shutdown() override { co_return; }

 private:
  FakeEnvironment* const environment_;
};

absl::StatusOr<std::unique_ptr<http::Engine>> FakeEnvironment::MakeClient(const v1::ModelSpec&) {
  if (no_client_) return absl::InvalidArgumentError("CA bundle ca.pem: no such file");
  return std::make_unique<Engine>(this);
}

namespace {

std::vector<quota::PoolSpec> SpecsOf(const v1::JobSpec& job) {
  std::vector<quota::PoolSpec> specs;
  for (const v1::PoolSpec& pool : job.pools()) {
    quota::PoolSpec spec;
    spec.name = pool.name();
    spec.auto_in_flight = pool.auto_in_flight();
    if (pool.requests_per_minute() > 0) {
      quota::DimensionSpec requests;
      requests.dimension = quota::Dimension::kRequests;
      requests.limit = pool.requests_per_minute();
      spec.dimensions.push_back(requests);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

std::vector<quota::PoolSpec> FakeEnvironment::PoolsOfSharer(const v1::JobSpec& job,
                                                            int64_t sharers) {
  std::vector<quota::PoolSpec> specs = SpecsOf(job);
  std::erase_if(specs, [](const quota::PoolSpec& spec) { return !spec.auto_in_flight; });
  return specs;
}

absl::StatusOr<std::unique_ptr<quota::PoolStore>> FakeEnvironment::MakePools(
    const v1::JobSpec& job) {
  return std::make_unique<quota::MemoryPoolStore>(reactor_, SpecsOf(job));
}

}  // namespace headrace
