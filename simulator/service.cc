#include "simulator/service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace::simulator {
namespace {

// Keys that get an account of their own; further ones share one. Chosen, not measured.
constexpr size_t kMaxAccounts = 10'000;
// What a provider reserves when a request names no max_tokens. Chosen, not measured.
constexpr int64_t kDefaultMaxTokens = 16;
// As OpenAI's.
constexpr double kMaxTemperature = 2;
// Calls that one barrier holds at most.
constexpr int kMaxBarrier = 100'000;

Endpoint FindEndpoint(const Request& request) {
  if (request.method == "POST") {
    if (request.path == "/v1/chat/completions") return Endpoint::kChat;
    if (request.path == "/v1/messages") return Endpoint::kMessages;
    if (request.path == "/v1/completions") return Endpoint::kCompletions;
    if (request.path == "/v1/embeddings") return Endpoint::kEmbeddings;
    if (request.path == "/truth/reset") return Endpoint::kTruthReset;
  } else if (request.method == "GET") {
    if (request.path == "/v1/models") return Endpoint::kModels;
    if (request.path == "/truth") return Endpoint::kTruth;
  }
  return Endpoint::kUnknown;
}

// Uniform in [0, 1) from a hash.
double Unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace

Service::Service(Reactor* reactor, const SimulatorOptions& options)
    : reactor_(reactor),
      options_(options),
      limits_(AllLimits(options)),
      wheel_(reactor, options.tick),
      truth_(reactor->Now()),
      prompt_cache_(static_cast<size_t>(options.prompt_cache_steps)),
      keys_(options.keys.begin(), options.keys.end()),
      models_(options.models.begin(), options.models.end()) {}

Service::~Service() = default;

std::unique_ptr<Call> Service::Start(Responder* responder, Request request) {
  auto call = std::make_unique<Call>(this, responder, std::move(request));
  Begin(call.get());
  return call;
}

void Service::Begin(Call* call) {
  const MonoTime now = reactor_->Now();
  ++request_number_;
  if (call->request_.expectation_failed) {
    return call->Play(ErrorPlan(417, false, "invalid_request_error", "", "Expectation Failed"),
                      now);
  }
  const Endpoint endpoint = FindEndpoint(call->request_);
  Plan plan;
  switch (endpoint) {
    case Endpoint::kTruth:
      plan.whole = TruthJson(truth_.Snapshot());
      return call->Play(std::move(plan), now);
    case Endpoint::kTruthReset:
      truth_.Reset(now);
      plan.whole = "{}";
      return call->Play(std::move(plan), now);
    case Endpoint::kModels: {
      plan.whole = "{\"object\":\"list\",\"data\":[";
      for (const std::string& model : options_.models) {
        absl::StrAppend(&plan.whole, plan.whole.back() == '[' ? "" : ",", "{\"id\":\"", model,
                        "\",\"object\":\"model\",\"created\":1760000000,\"owned_by\":\"sim\"}");
      }
      plan.whole += "]}";
      return call->Play(std::move(plan), now);
    }
    case Endpoint::kUnknown:
      return call->Play(ErrorPlan(404, false, "invalid_request_error", "unknown_url",
                                  "Unknown request URL. Please check the URL for typos."),
                        now);
    default:
      call->counted_ = true;
      truth_.BeginCall();
      Generate(call, endpoint, now);
  }
}

AnswerSpec Service::MakeSpec(Endpoint endpoint, const BodyFacts& facts, uint64_t body_hash) const {
  AnswerSpec spec;
  spec.endpoint = endpoint;
  spec.model.assign(facts.model.data(), facts.model.size());
  spec.hash = StableHash("", body_hash ^ (options_.seed * 0x9e3779b97f4a7c15));
  spec.prompt_tokens = std::max<int64_t>((facts.prompt_bytes + 3) / 4, 1);
  const int64_t span = options_.max_tokens - options_.min_tokens + 1;
  spec.completion_tokens =
      options_.min_tokens + static_cast<int64_t>((spec.hash >> 8) % static_cast<uint64_t>(span));
  if (facts.max_tokens > 0 && facts.max_tokens < spec.completion_tokens) {
    spec.completion_tokens = facts.max_tokens;
    spec.cut = true;
  }
  spec.include_usage = facts.include_usage;
  spec.choices = IsAnthropic(endpoint) ? 1 : facts.choices;
  spec.inputs = facts.inputs;
  return spec;
}

void Service::Generate(Call* call, Endpoint endpoint, MonoTime now) {
  const Request& request = call->request_;
  const bool anthropic = IsAnthropic(endpoint);
  const auto refuse = [&](int status, absl::string_view type, absl::string_view code,
                          absl::string_view message) {
    ++truth_.counters().bad_requests;
    Plan plan = ErrorPlan(status, anthropic, type, code, message);
    AddStandardHeaders(request_number_, anthropic, nullptr, now, &plan);
    call->Play(std::move(plan), now);
  };
  if (!keys_.empty() && !keys_.contains(request.key)) {
    return refuse(401, anthropic ? "authentication_error" : "invalid_request_error",
                  "invalid_api_key", "Incorrect API key provided.");
  }
  if (request.body_too_large) {
    return refuse(413, anthropic ? "request_too_large" : "invalid_request_error",
                  "request_too_large", "Request exceeds the maximum size.");
  }
  const BodyFacts facts = ScanBody(request.body);
  if (!facts.valid || facts.model.empty()) {
    return refuse(400, "invalid_request_error", "",
                  facts.valid ? "you must provide a model parameter"
                              : "We could not parse the JSON body of your request.");
  }
  if (facts.temperature > kMaxTemperature) {
    return refuse(400, "invalid_request_error", "", "temperature: it must be at most 2.");
  }
  if (!models_.empty() && !models_.contains(facts.model)) {
    return refuse(404, anthropic ? "not_found_error" : "invalid_request_error", "model_not_found",
                  "The model does not exist or you do not have access to it.");
  }
  const uint64_t body_hash = StableHash(request.body, 0);
  call->identity_ = request.item.empty() ? body_hash : StableHash(request.item, 1);
  const uint32_t times = truth_.SeeIdentity(call->identity_);
  AnswerSpec spec = MakeSpec(endpoint, facts, body_hash);
  // A part of the prompt's own tokens, which are fewer than those of the whole body.
  spec.cached_tokens = std::min(prompt_cache_.Use(request.body), spec.prompt_tokens);
  // The golden ratio spreads any number of successive streams evenly (Weyl's sequence).
  call->phase_ = std::fmod(static_cast<double>(request_number_) * 0.6180339887498949, 1.0);
  call->account_ = limits_.empty() ? nullptr : FindAccount(request.key);
  if (!Admit(call, spec, facts, now)) return;

  const bool stream = facts.stream && IsGeneration(endpoint);
  const Fault fault = DrawFault(call->identity_, times, request);
  Plan plan;
  if (fault != Fault::kNone && HasPlace(fault, endpoint, stream, request)) {
    ++truth_.counters().faults[static_cast<size_t>(fault)];
    plan = FaultPlan(fault, std::move(spec), request, stream, options_, reactor_->WallNow());
  } else {
    plan = AnswerPlan(std::move(spec), stream, options_);
  }
  if (plan.status == 200) plan.delay += DrawLatency(call->identity_ + times);
  AddStandardHeaders(request_number_, anthropic, call->account_, now, &plan);

  int barrier = options_.barrier;
  if (!request.barrier.empty() && !absl::SimpleAtoi(request.barrier, &barrier)) barrier = 0;
  if (barrier > 0) {
    call->plan_ = std::move(plan);
    return static_cast<void>(Held(call, std::min(barrier, kMaxBarrier), now));
  }
  if (options_.servers > 0) return Serve(call, std::move(plan), now);
  call->Play(std::move(plan), now);
}

void Service::Serve(Call* call, Plan plan, MonoTime now) {
  if (busy_servers_ >= options_.servers) {
    call->plan_ = std::move(plan);
    call->state_ = Call::State::kQueued;
    queued_.push_back(call);
    return;
  }
  call->served_ = true;
  Truth& truth = truth_.counters();
  truth.peak_served = std::max(truth.peak_served, ++busy_servers_);
  call->Play(std::move(plan), now);
}

void Service::FreeServer(MonoTime now) {
  --busy_servers_;
  if (queued_.empty()) return;
  Call* next = queued_.front();
  queued_.pop_front();
  Serve(next, std::move(next->plan_), now);
}

bool Service::Admit(Call* call, const AnswerSpec& spec, const BodyFacts& facts, MonoTime now) {
  const int64_t max_output = facts.max_tokens > 0 ? facts.max_tokens : kDefaultMaxTokens;
  Rejection rejection;
  if (call->account_ != nullptr &&
      !call->account_->Admit(now, spec.prompt_tokens, max_output, &call->charge_, &rejection)) {
    const bool anthropic = IsAnthropic(spec.endpoint);
    truth_.Rejected(now, rejection.kind, rejection.never);
    RejectionText text = RenderRejection(rejection, anthropic, spec.model);
    Plan plan;
    plan.status = text.status;
    plan.headers = std::move(text.headers);
    plan.whole = std::move(text.body);
    AddStandardHeaders(request_number_, anthropic, call->account_, now, &plan);
    call->Play(std::move(plan), now);
    return false;
  }
  const int64_t tokens = call->account_ == nullptr ? spec.prompt_tokens + spec.completion_tokens
                                                   : call->charge_.total_tokens;
  truth_.Admitted(now, tokens);
  return true;
}

Fault Service::DrawFault(uint64_t identity, uint32_t times, const Request& request) {
  if (!request.forced_fault.empty()) return FaultFromName(request.forced_fault);
  if (options_.faults.empty()) return Fault::kNone;
  // From the identity and its attempt, not from the order of arrival: the same run repeats exactly.
  const uint64_t item = identity ^ (options_.seed << 1);
  const double sticky = Unit(StableHash("item", item));
  double sticky_sum = 0;
  for (const FaultRate& fault : options_.faults) {
    if ((GetFaultInfo(fault.fault).where & kSticky) == 0) continue;
    sticky_sum += fault.rate;
    if (sticky < sticky_sum) return fault.fault;
  }
  // What is left of the items, so that the others too strike at their rate of all requests.
  double draw = Unit(StableHash("attempt", item ^ (uint64_t{times} << 40))) * (1 - sticky_sum);
  for (const FaultRate& fault : options_.faults) {
    if ((GetFaultInfo(fault.fault).where & kSticky) != 0) continue;
    draw -= fault.rate;
    if (draw < 0) return fault.fault;
  }
  return Fault::kNone;
}

Fault Service::ExpectFault(const Request& request) {
  Fault fault = FaultFromName(request.forced_fault);
  for (const FaultRate& rate : options_.faults) {
    const bool expect = (GetFaultInfo(rate.fault).where & kExpectOnly) != 0;
    if (expect && Unit(StableHash("expect", request_number_)) < rate.rate) fault = rate.fault;
  }
  if (fault != Fault::k417 && fault != Fault::kNoContinue) return Fault::kNone;
  ++truth_.counters().faults[static_cast<size_t>(fault)];
  return fault;
}

absl::Duration Service::DrawLatency(uint64_t hash) const {
  if (options_.latency_sigma <= 0) return options_.latency;
  // Box-Muller, with both uniforms from the hash.
  const double u = std::max(Unit(StableHash("u", hash ^ options_.seed)), 1e-12);
  const double v = Unit(StableHash("v", hash ^ options_.seed));
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
  return options_.latency * std::min(std::exp(options_.latency_sigma * normal), 20.0);
}

Account* Service::FindAccount(const std::string& key) {
  auto it = accounts_.find(key);
  if (it != accounts_.end()) return it->second.get();
  if (accounts_.size() >= kMaxAccounts && !key.empty()) return FindAccount("");
  return accounts_
      .emplace(key, std::make_unique<Account>(limits_, options_.charging, options_.count_failed))
      .first->second.get();
}

bool Service::Held(Call* call, int barrier, MonoTime now) {
  held_.push_back(call);
  if (held_.size() >= static_cast<size_t>(barrier)) {
    ReleaseBarrier(now, /*timed_out=*/false);
    return false;
  }
  wheel_.Add(call, now + options_.barrier_timeout);
  return true;
}

void Service::ReleaseBarrier(MonoTime now, bool timed_out) {
  ++(timed_out ? truth_.counters().barriers_timed_out : truth_.counters().barriers_released);
  for (Call* call : std::exchange(held_, {})) {
    call->Leave();
    call->Play(std::move(call->plan_), now);
  }
}

void Service::AddStandardHeaders(uint64_t id, bool anthropic, Account* account, MonoTime now,
                                 Plan* plan) {
  plan->headers.emplace_back(anthropic ? "request-id" : "x-request-id",
                             absl::StrCat("req_", absl::Hex(id, absl::kZeroPad12)));
  if (account != nullptr && options_.quota_headers) {
    account->AppendHeaders(now, reactor_->WallNow(), anthropic, &plan->headers);
  }
}

}  // namespace headrace::simulator
