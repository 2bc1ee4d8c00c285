#include "tests/unit/worker/probe/provider_world.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headrace::probe {
namespace {

using simulator::LimitKind;
using simulator::LimitSpec;
using simulator::LimitState;
using simulator::Meter;

constexpr double kStart = 1000;  // of the meters' clock: the probe begins in the middle of it
constexpr double kWall = 1'800'000'000;

// A window that begins with the first request after the end of the last one (LiteLLM).
class RollingMeter final : public Meter {
 public:
  explicit RollingMeter(const LimitSpec& spec) : Meter(spec) {}

  simulator::Fit Check(MonoTime now, int64_t cost) override {
    if (now >= end_ || used_ + cost <= spec_.limit) return {};
    return {.fits = false, .retry_after = end_ - now};
  }
  void Charge(MonoTime now, MonoTime charged_at, int64_t cost) override {
    if (charged_at < now) {
      if (charged_at + spec_.period >= end_ || now < end_) used_ += cost;
      return;
    }
    if (now >= end_) {
      end_ = now + spec_.period;
      used_ = 0;
    }
    used_ += cost;
  }
  LimitState State(MonoTime now) override {
    return {.limit = spec_.limit,
            .remaining = std::max<int64_t>(spec_.limit - used_, 0),
            .reset = std::max(end_ - now, absl::ZeroDuration()),
            .used = used_};
  }

 private:
  MonoTime end_;
  int64_t used_ = 0;
};

// A bucket of a day's requests, as OpenAI's headers tell it (quota.md 1.4).
class DayMeter final : public Meter {
 public:
  explicit DayMeter(const LimitSpec& spec) : Meter(spec) {}

  simulator::Fit Check(MonoTime, int64_t) override { return {}; }
  void Charge(MonoTime now, MonoTime, int64_t cost) override {
    Drain(now);
    used_ += static_cast<double>(cost);
  }
  LimitState State(MonoTime now) override {
    Drain(now);
    return {.limit = spec_.limit,
            .remaining = static_cast<int64_t>(static_cast<double>(spec_.limit) - used_),
            .reset = absl::Seconds(used_ * 86'400 / static_cast<double>(spec_.limit)),
            .used = static_cast<int64_t>(used_)};
  }

 private:
  void Drain(MonoTime now) {
    const double s = absl::ToDoubleSeconds(now - last_);
    used_ = std::max(used_ - s * static_cast<double>(spec_.limit) / 86'400, 0.0);
    last_ = now;
  }
  MonoTime last_;
  double used_ = 0;
};

provider::RateHeaders::Limit* WordsOf(LimitKind kind, provider::RateHeaders* rate) {
  switch (kind) {
    case LimitKind::kRequests:
      return &rate->requests;
    case LimitKind::kTokens:
      return &rate->tokens;
    case LimitKind::kInputTokens:
      return &rate->input_tokens;
    default:
      return &rate->output_tokens;
  }
}

quota::Dimension DimensionOf(LimitKind kind) {
  switch (kind) {
    case LimitKind::kRequests:
      return quota::Dimension::kRequests;
    case LimitKind::kTokens:
      return quota::Dimension::kTokens;
    case LimitKind::kInputTokens:
      return quota::Dimension::kInputTokens;
    default:
      return quota::Dimension::kOutputTokens;
  }
}

}  // namespace

ProviderOptions OpenAiLike() {
  ProviderOptions options;
  options.limits.resize(2);
  options.limits[0].kind = LimitKind::kRequests;
  options.limits[0].limit = 500;
  options.limits[1].kind = LimitKind::kTokens;
  options.limits[1].limit = 200'000;
  return options;
}

ProviderWorld::ProviderWorld(const ProviderOptions& options)
    : options_(options), random_(options.seed) {
  for (const LimitSpec& given : options.limits) {
    LimitSpec spec = given;
    if (options.requests_per_day > 0 && spec.kind == LimitKind::kRequests) {
      spec.limit = options.requests_per_day;
      meters_.push_back(std::make_unique<DayMeter>(spec));
    } else if (options.rolling) {
      meters_.push_back(std::make_unique<RollingMeter>(spec));
    } else {
      meters_.push_back(simulator::MakeMeter(spec));
    }
  }
}

MonoTime ProviderWorld::At(double s) {
  last_ = std::max(last_, s);
  return MonoTime::FromNanos(std::llround((kStart + last_) * 1e9));
}

void ProviderWorld::Outsider(double at) {
  if (options_.outsider_tokens_per_s <= 0) return;
  for (const auto& meter : meters_) {
    const double tokens = options_.outsider_tokens_per_s * (at - outsider_at_);
    const bool requests = meter->spec().kind == LimitKind::kRequests;
    const MonoTime now = At(at);
    meter->Charge(now, now, std::llround(requests ? tokens / 500 : tokens));
  }
  outsider_at_ = at;
}

int64_t ProviderWorld::AtSendCost(LimitKind kind, const Pending& p) const {
  const int64_t prompt = std::llround(static_cast<double>(p.input) * options_.prompt_estimate);
  const int64_t max = p.answer.ask.max_tokens;
  if (kind == LimitKind::kRequests) return 1;
  if (kind == LimitKind::kInputTokens) return options_.at_send == AtSend::kNothing ? 0 : prompt;
  if (kind == LimitKind::kOutputTokens) {
    const bool by_max = options_.at_send == AtSend::kMaxTokens ||
                        options_.at_send == AtSend::kLarger || options_.at_send == AtSend::kSum;
    return by_max ? max : 0;
  }
  switch (options_.at_send) {
    case AtSend::kNothing:
    case AtSend::kOne:
      return 0;
    case AtSend::kPrompt:
      return prompt;
    case AtSend::kMaxTokens:
      return max;
    case AtSend::kLarger:
      return std::max(prompt, max);
    case AtSend::kSum:
      return prompt + max;
  }
  return 0;
}

int64_t ProviderWorld::AtEndCost(LimitKind kind, const Pending& p, int64_t charged) const {
  if (kind == LimitKind::kRequests || options_.at_end == AtEnd::kKept) return charged;
  const int64_t input = p.input - (options_.at_end == AtEnd::kUncached ? p.cached : 0);
  if (kind == LimitKind::kInputTokens) return input;
  return kind == LimitKind::kOutputTokens ? p.output : input + p.output;
}

ProviderWorld::Pending ProviderWorld::Send(const Ask& ask) {
  Pending p;
  p.answer.ask = ask;
  p.answer.sent_s = now_ + random_.Unit() * 0.001;
  p.arrived = p.answer.sent_s + 0.01 + random_.Unit() * absl::ToDoubleSeconds(options_.jitter);
  p.input = ask.prompt_words + 18;
  p.output = ask.long_answer ? random_.Between(150, 250)
                             : random_.Between(options_.least_answer, options_.most_answer);
  p.output = std::min(p.output, ask.max_tokens);
  p.answer.expected_prompt_tokens = static_cast<double>(ask.prompt_words) + 20;
  return p;
}

void ProviderWorld::Show(double at, Answer* answer) {
  if (!options_.headers) return;
  for (const auto& meter : meters_) {
    const LimitState state = meter->State(At(at));
    provider::RateHeaders::Limit* words = WordsOf(meter->spec().kind, &answer->rate);
    const int64_t quantum = meter->spec().kind == LimitKind::kRequests ? 1 : options_.quantum;
    words->limit = state.limit;
    words->remaining = (state.remaining + quantum / 2) / quantum * quantum;
    if (!options_.resets) continue;
    words->reset = options_.reset_in_seconds ? absl::Ceil(state.reset, absl::Seconds(1))
                                             : absl::Trunc(state.reset, absl::Milliseconds(1));
    answer->limit_headers.emplace_back(
        absl::StrCat("x-ratelimit-remaining-", simulator::LimitKindName(meter->spec().kind)),
        absl::StrCat(*words->remaining));
  }
}

void ProviderWorld::Arrive(Pending* p) {
  ++requests_;
  Answer& answer = p->answer;
  Outsider(p->arrived);
  const MonoTime now = At(p->arrived);
  const double latency =
      absl::ToDoubleSeconds(random_.Between(options_.least_latency, options_.most_latency));
  const double back = 0.01 + random_.Unit() * absl::ToDoubleSeconds(options_.jitter);
  answer.server_time = absl::FromUnixSeconds(static_cast<int64_t>(kWall + kStart + p->arrived));
  answer.head_s = answer.end_s = p->arrived + 0.03 + back;  // of one that is refused
  if (options_.shown == Shown::kBefore) Show(p->arrived, &answer);
  const bool too_large = options_.most_output > 0 && answer.ask.max_tokens > options_.most_output;
  if (too_large || (answer.ask.wrong && !options_.takes_any_temperature)) {
    answer.status = 400;
    answer.error_class = ErrorClass::kBadRequest;
    answer.fate = Fate::kRefused;
    answer.message = too_large ? "max_tokens is too large" : "temperature must be at most 2";
    for (const auto& meter : meters_) {
      const bool counts = options_.refused_count && meter->spec().kind == LimitKind::kRequests;
      if (counts) meter->Charge(now, now, 1);
    }
    return;
  }
  for (const auto& meter : meters_) {
    const int64_t cost = AtSendCost(meter->spec().kind, *p);
    const simulator::Fit fit = meter->Check(now, cost);
    if (fit.fits) continue;
    answer.status = 429;
    answer.error_class = ErrorClass::kRateLimited;
    answer.fate = Fate::kThrottled;
    answer.throttled_by = DimensionOf(meter->spec().kind);
    if (options_.retry_after) {
      answer.retry_after = fit.retry_after;
      answer.limit_headers.emplace_back(
          "retry-after", absl::StrCat(std::ceil(absl::ToDoubleSeconds(fit.retry_after))));
    }
    const int64_t used = meter->State(now).used;
    if (options_.figures) answer.figures = {meter->spec().limit, used, cost};
    for (const auto& other : meters_) {
      const bool counts =
          options_.throttled_count && other->spec().kind == LimitKind::kRequests && other != meter;
      if (counts) other->Charge(now, now, 1);
    }
    if (options_.shown == Shown::kCharged) Show(p->arrived, &answer);
    return;
  }
  answer.status = 200;
  answer.fate = Fate::kAnswered;
  if (options_.cached_from > 0 && p->input >= options_.cached_from) {
    if (long_seen_) p->cached = options_.cached_from;
    long_seen_ = true;
  }
  for (const auto& meter : meters_) {
    p->charged.push_back(AtSendCost(meter->spec().kind, *p));
    meter->Charge(now, now, p->charged.back());
  }
  if (options_.shown == Shown::kCharged) Show(p->arrived, &answer);
  answer.head_s = answer.end_s = p->arrived + latency + back;
  answer.usage.prompt_tokens = p->input;
  answer.usage.completion_tokens = p->output;
  if (options_.cached_from > 0) answer.usage.cached_tokens = p->cached;
}

void ProviderWorld::End(Pending* p) {
  const double at = p->answer.head_s - 0.01;
  const bool admitted = !p->charged.empty();
  for (size_t i = 0; admitted && i < meters_.size(); ++i) {
    const int64_t end = AtEndCost(meters_[i]->spec().kind, *p, p->charged[i]);
    const MonoTime now = At(at);
    const MonoTime charged_at = MonoTime::FromNanos(std::llround((kStart + p->arrived) * 1e9));
    // What is first charged at the end belongs to the end.
    if (end != p->charged[i]) {
      meters_[i]->Charge(now, p->charged[i] == 0 ? now : charged_at, end - p->charged[i]);
    }
  }
  if (options_.shown == Shown::kEnd) Show(at, &p->answer);
}

void ProviderWorld::Run(Plan* plan) {
  while (std::optional<Ask> ask = plan->Next()) {
    now_ += absl::ToDoubleSeconds(ask->wait) + 0.0005;
    std::vector<Pending> pending;
    for (int i = 0; i < ask->copies; ++i) pending.push_back(Send(*ask));
    std::sort(pending.begin(), pending.end(),
              [](const Pending& a, const Pending& b) { return a.arrived < b.arrived; });
    for (Pending& p : pending) Arrive(&p);
    std::sort(pending.begin(), pending.end(),
              [](const Pending& a, const Pending& b) { return a.answer.end_s < b.answer.end_s; });
    for (Pending& p : pending) End(&p);
    for (Pending& p : pending) {
      now_ = std::max(now_, p.answer.end_s);
      p.answer.overlapped = pending.size() > 1;
      plan->Add(std::move(p.answer));
    }
  }
}

}  // namespace headrace::probe
