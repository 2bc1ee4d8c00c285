// KneeFinder: how many calls in flight a provider is worth, found by trying. Pure: it reads no
// clock and does no I/O. One for each pool, whoever runs it: it sees what all workers saw together.
//
// The knee is where more calls in flight stop bringing more calls per second and only bring longer
// waits. What decides is the elasticity between two numbers in flight: the share of more calls per
// second of the share of more in flight; 1 while calls do not touch each other, 0 when they queue.
//
//   GROW   the number doubles while the calls per second follow (elasticity of at least a half).
//          When they do not, the knee is where a line of slope 1 would have reached them   -> HOLD
//   HOLD   at the number `base`, with a probe now and then, up and down in turn:
//            BASE    measures at the base
//            PROBE   measures a quarter above or below it (more where few calls come)
//            RETURN  measures at the base again: what changed by itself is seen on both sides
//          a probe that paid moves the base, and the next follows at once, further; one that did
//          not makes the next wait longer. Times that have changed at the base bring it forward.
//   any    calls are refused (429 that is no quota's, 503): a probe is given up; else the base goes
//          down by 30 %, and what was refused is not tried again for a while
//
// There is no time "without load" to compare with, as in limiters after TCP Vegas: a provider's own
// pace changes by the hour, and such a limiter takes that for a queue. Two numbers that are tried
// one after the other see the same provider.
//
// What is seen counts only while the limit is what keeps calls from being sent. A quota that is
// used up, the end of a data set, a worker's own gate: then the number stays as it is.
#ifndef HEADRACE_COMMON_QUOTA_KNEE_H_
#define HEADRACE_COMMON_QUOTA_KNEE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/quota/flight_sample.h"
#include "common/quota/knee_window.h"

namespace headrace::quota {

class KneeFinder {
 public:
  static constexpr int64_t kStart = 16;     // chosen: small servers of one's own have so many slots
  static constexpr int64_t kMost = 10'000;  // as max_in_flight of a job at most
  // Steps are meant to come about this often.
  static constexpr int64_t kStepUs = 1'000'000;

  // Never above `most`, which is at least 1.
  explicit KneeFinder(int64_t most = kMost);

  // All that the workers have sampled since the last step; `workers` are those that sample, at
  // least 1. `now_us` is of any clock that does not go back. True if limit() has changed.
  bool Step(int64_t now_us, const FlightSample& sample, int64_t workers);

  // Calls that may be in flight now, of all workers.
  int64_t limit() const { return state_.limit; }
  // The number that was found so far; the limit is another one during a probe.
  int64_t base() const { return state_.base; }
  // A sentence for people: how it came to the base.
  const std::string& why() const { return why_; }
  bool growing() const { return state_.mode == Mode::kGrow; }
  void set_most(int64_t most);

  // All that it knows as a text, for another process to go on with. Load() gives nothing for a text
  // that cannot be one of Save().
  std::string Save() const;
  static std::optional<KneeFinder> Load(absl::string_view text, int64_t most = kMost);

 private:
  static constexpr int64_t kFirstWaitUs = 20'000'000;  // before the next probe; chosen

  enum class Mode : int64_t { kGrow, kHold };
  enum class Turn : int64_t { kBase, kProbe, kReturn };

  struct State {
    Mode mode = Mode::kGrow;
    Turn turn = Turn::kBase;
    int64_t limit = 0;
    int64_t base = 0;
    int64_t raised = 1;      // the last change of the limit was one up
    int64_t reached = 0;     // since then so many are in flight
    double step = 1;         // of the last change
    double in_flight = 0;    // of the last sample
    int64_t settled_us = 0;  // what ended before was sent under another limit
    int64_t changed_us = 0;  // the last change of the limit
    double latency_us = 0;   // of answered calls, smoothed; 0: none yet
    int64_t unbound_us = 0;  // the limit has not been what limits for so long
    // Probes.
    int64_t direction = 1;
    double ratio = 0;         // of the next probe; 0: the smallest that few enough calls decide
    int64_t idle_probes = 0;  // up, that moved nothing, in a row
    int64_t probe_at_us = 0;
    // Refusals.
    double refused = 0;  // both fade by half every 5 s
    double ended = 0;
    double usual_refused = 0;  // and these in minutes
    double usual_ended = 0;
    int64_t refused_at = 0;  // so many in flight were refused; 0: none known
    int64_t refused_until_us = 0;
    int64_t cut_from = 0;  // where it was before the first cut for it; 0: there was none
    double cut_share = 0;  // of refused calls then
    int64_t cuts = 0;      // in a row that did not help
    int64_t outage = 0;    // 1: little is answered, whatever the number
  };

  int64_t Clamp(double limit) const;
  int64_t SettleUs() const;
  int64_t LongestUs() const;
  void SetLimit(int64_t now_us, int64_t limit);
  void Move(int64_t now_us, int64_t base, std::string why);
  void OnUnbound(int64_t now_us, int64_t span_us);
  bool OnRefusals(int64_t now_us, const FlightSample& sample, int64_t span_us);
  void Cut(int64_t now_us, double share);
  void BeginOutage(int64_t now_us, double share);
  bool WaitForEndOfOutage(int64_t now_us, double share);
  void Measure(int64_t now_us);
  void MeasureGrowth(int64_t now_us);
  void MeasureBase(int64_t now_us);
  void MeasureProbe(int64_t now_us);
  void MeasureReturn(int64_t now_us);
  bool HasChanged(KneeGain* gain) const;
  double SmallestRatio() const;
  void StartProbe(int64_t now_us);
  void EndProbe(int64_t now_us, const KneeGain& gain);
  bool Enough(const KneeGain& gain, double threshold, double goal) const;

  template <typename Visit>
  static void EachNumber(State* state, Visit visit);

  int64_t most_;
  State state_;
  KneeWindow now_;    // at the limit of now, since it has settled
  KneeWindow base_;   // at the number that a probe is compared with; of GROW: at half of it
  KneeWindow probe_;  // of RETURN: the probe
  KneeWindow known_;  // at the base when it was last decided
  std::string why_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_KNEE_H_
