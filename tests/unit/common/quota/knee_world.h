// A provider as a queue, in virtual time, from one seed: what a KneeFinder is tried on.
#ifndef HEADRACE_TESTS_UNIT_COMMON_QUOTA_KNEE_WORLD_H_
#define HEADRACE_TESTS_UNIT_COMMON_QUOTA_KNEE_WORLD_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "common/base/random.h"
#include "common/quota/flight_sample.h"
#include "common/quota/knee.h"

namespace headrace::quota {

// Times in seconds.
struct KneeWorldOptions {
  int64_t slots = 100;        // of the provider: beyond them calls queue
  double latency = 2;         // median time of a call of median length in a slot
  double noise = 0.3;         // spread of its logarithm
  double token_share = 0.8;   // of the time, that goes by the length of the answer
  double token_noise = 0.6;   // spread of the logarithm of that length
  int64_t tokens = 200;       // median length
  bool counts_tokens = true;  // answers say how long they are
  double overhead = 0;        // each further call in flight makes all slower by so much
  double wander = 0;          // spread of the provider's own pace, which changes by the minute
  int64_t hard_limit = std::numeric_limits<int64_t>::max();  // more in flight get 429
  double failing = 0;  // share of calls that get 503 whatever is in flight
  int64_t demand = std::numeric_limits<int64_t>::max();  // calls that there are to make at a time
  double per_second = 0;                                 // a quota; 0: none
  int64_t workers = 1;
};

class KneeWorld {
 public:
  KneeWorld(const KneeWorldOptions& options, uint64_t seed) : o_(options), random_(seed) {}

  KneeWorldOptions& options() { return o_; }
  double now() const { return now_; }
  int64_t answered() const { return answered_; }
  int64_t refused() const { return refused_; }
  int64_t in_flight() const { return in_flight_; }

  // Runs for a second with `limit` in flight and tells what was seen.
  FlightSample Run(int64_t limit) {
    sample_ = FlightSample();
    const double end = now_ + 1;
    Wander();
    Fill(limit);
    while (!events_.empty() && events_.top().at <= end) {
      const Event event = events_.top();
      events_.pop();
      Pass(event.at, limit);
      Handle(event);
      Fill(limit);
    }
    Pass(end, limit);
    sample_.span_us = o_.workers * 1'000'000;
    return sample_;
  }

 private:
  struct Event {
    double at;
    enum Kind { kServed, kRefused, kBackOff, kTick } kind;
    double begun;
    int64_t tokens;
    bool operator<(const Event& other) const { return at > other.at; }  // the earliest on top
  };
  struct Call {
    double begun;
    double service;
    int64_t tokens;
  };

  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random_.Unit();
    return sum;
  }
  void Wander() {
    // An autoregressive walk with a memory of about half a minute.
    constexpr double kKeep = 0.97;
    pace_ = kKeep * pace_ + std::sqrt(1 - kKeep * kKeep) * o_.wander * Normal();
  }
  void Pass(double at, int64_t limit) {
    const auto us = static_cast<int64_t>((at - now_) * 1e6);
    sample_.in_flight_us += in_flight_ * us;
    if (in_flight_ >= limit && WantsMore()) sample_.starved_us += o_.workers * us;
    now_ = at;
  }
  bool WantsMore() const { return in_flight_ + backing_off_ < o_.demand; }
  void Fill(int64_t limit) {
    // Items in hand are bounded, as a worker's are.
    while (in_flight_ < limit && backing_off_ < 2 * limit && WantsMore()) {
      if (o_.per_second > 0) {
        if (next_send_ > now_) {
          if (!ticking_) events_.push({next_send_, Event::kTick, 0, 0});
          ticking_ = true;
          return;
        }
        next_send_ = std::max(next_send_, now_ - 0.25) + 1 / o_.per_second;
      }
      Send();
    }
  }
  void Send() {
    ++in_flight_;
    if (accepted_ >= o_.hard_limit || random_.Chance(o_.failing)) {
      events_.push({now_ + 0.02, Event::kRefused, now_, 0});
      return;
    }
    ++accepted_;
    const double length = std::exp(o_.token_noise * Normal());
    double service = o_.latency * (1 - o_.token_share + o_.token_share * length) *
                     std::exp(o_.noise * Normal() + pace_);
    service *= 1 + o_.overhead * static_cast<double>(accepted_ - 1);
    const auto tokens =
        o_.counts_tokens ? std::llround(static_cast<double>(o_.tokens) * length) : int64_t{0};
    queue_.push_back({now_, service, tokens});
    Serve();
  }
  void Serve() {
    while (busy_ < o_.slots && !queue_.empty()) {
      const Call call = queue_.front();
      queue_.pop_front();
      ++busy_;
      events_.push({now_ + call.service, Event::kServed, call.begun, call.tokens});
    }
  }
  void Handle(const Event& event) {
    switch (event.kind) {
      case Event::kServed:
        --busy_;
        --accepted_;
        --in_flight_;
        ++answered_;
        sample_.AddAnswer(0, absl::Seconds(event.at - event.begun), event.tokens);
        Serve();
        break;
      case Event::kRefused:
        --in_flight_;
        ++refused_;
        ++backing_off_;
        sample_.AddFailure(absl::Seconds(event.at - event.begun), true);
        events_.push({now_ + 0.5 + 0.5 * random_.Unit(), Event::kBackOff, 0, 0});
        break;
      case Event::kBackOff:
        --backing_off_;
        break;
      case Event::kTick:
        ticking_ = false;
        break;
    }
  }

  KneeWorldOptions o_;
  Random random_;
  double now_ = 0;
  double pace_ = 0;
  double next_send_ = 0;
  bool ticking_ = false;
  int64_t in_flight_ = 0;
  int64_t accepted_ = 0;
  int64_t busy_ = 0;
  int64_t backing_off_ = 0;
  int64_t answered_ = 0;
  int64_t refused_ = 0;
  std::deque<Call> queue_;
  std::priority_queue<Event> events_;
  FlightSample sample_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_UNIT_COMMON_QUOTA_KNEE_WORLD_H_
