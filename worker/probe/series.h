// What the answers say of one limit, in the order of sending: what theories are compared with.
// Pure.
#ifndef HEADRACE_WORKER_PROBE_SERIES_H_
#define HEADRACE_WORKER_PROBE_SERIES_H_

#include <optional>
#include <vector>

#include "common/quota/quota.h"
#include "worker/probe/exchange.h"

namespace headrace::probe {

// One answer, as one limit sees it.
struct Sample {
  double sent_s = 0;
  double head_s = 0;
  double end_s = 0;
  bool overlapped = false;
  Fate fate = Fate::kAnswered;
  double prompt = 0;
  double max_tokens = 0;
  std::optional<double> input;  // by the usage
  std::optional<double> output;
  double cached = 0;
  std::optional<double> remaining;
  std::optional<double> reset_s;
};

struct Series {
  quota::Dimension dimension = quota::Dimension::kRequests;
  std::vector<Sample> samples;  // in the order of sending
  std::optional<double> limit;  // by the headers
  double quantum = 1;           // `remaining` is rounded to multiples of this
  double reset_grain_s = 0.001;
  double wall_s = 0;  // the server's wall clock at time 0, epoch seconds; 0: unknown
};
// Of the answers' headers about `dimension`, a limit of requests or tokens.
Series MakeSeries(const std::vector<Answer>& answers, quota::Dimension dimension);

// How far apart two numbers that are left may be and still be the same, in the headers' rounding.
double Rounding(const Series& series);
// Always less is left than the limit: each call is charged, even if it comes back before the next.
bool AlwaysBelowLimit(const Series& series);

// When a request is counted: just after it was sent.
double CountedAt(const Sample& sample);
// By how much the moment at which a provider counts a request may differ from one to the next, as
// seen from here. Chosen: more than a wide-area network varies, less than a request takes.
inline constexpr double kTimingSlackS = 0.06;

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_SERIES_H_
