#include "worker/probe/series.h"

#include <algorithm>
#include <cmath>

namespace headrace::probe {

Series MakeSeries(const std::vector<Answer>& answers, quota::Dimension dimension) {
  Series series;
  series.dimension = dimension;
  double whole_s = 0;
  double resets = 0;
  bool thousands = true;
  int remains = 0;
  for (const Answer& answer : answers) {
    const provider::RateHeaders::Limit& words = LimitOf(answer, dimension);
    Sample s;
    s.sent_s = answer.sent_s;
    s.head_s = answer.head_s;
    s.end_s = answer.end_s;
    s.overlapped = answer.overlapped;
    s.fate = answer.fate;
    s.prompt = PromptTokens(answer);
    s.max_tokens = static_cast<double>(answer.ask.max_tokens);
    if (answer.usage.prompt_tokens) s.input = static_cast<double>(*answer.usage.prompt_tokens);
    if (answer.usage.completion_tokens) {
      s.output = static_cast<double>(*answer.usage.completion_tokens);
    }
    s.cached = static_cast<double>(answer.usage.cached_tokens.value_or(0));
    if (words.limit) series.limit = static_cast<double>(*words.limit);
    if (words.remaining) {
      s.remaining = static_cast<double>(*words.remaining);
      thousands = thousands && *words.remaining % 1000 == 0;
      ++remains;
    }
    if (words.reset) {
      s.reset_s = absl::ToDoubleSeconds(*words.reset);
      ++resets;
      whole_s += std::fabs(*s.reset_s - std::round(*s.reset_s)) < 1e-6 ? 1 : 0;
    }
    if (answer.server_time && series.wall_s == 0) {
      series.wall_s =
          absl::ToDoubleSeconds(*answer.server_time - absl::UnixEpoch()) + 0.5 - answer.head_s;
    }
    series.samples.push_back(s);
  }
  // Three in a row by chance: one in 10^9.
  if (remains >= 3 && thousands && dimension != quota::Dimension::kRequests) series.quantum = 1000;
  // Whole seconds, and perhaps from a Date header that is one of them, too.
  if (resets > 0 && whole_s == resets) series.reset_grain_s = 2.1;
  std::sort(series.samples.begin(), series.samples.end(),
            [](const Sample& a, const Sample& b) { return a.sent_s < b.sent_s; });
  return series;
}

double Rounding(const Series& series) { return series.quantum > 1 ? series.quantum : 0; }

bool AlwaysBelowLimit(const Series& series) {
  double most = 0;
  for (const Sample& s : series.samples) most = std::max(most, s.remaining.value_or(0));
  return series.limit && *series.limit - most > Rounding(series);
}

double CountedAt(const Sample& s) { return s.sent_s + std::min(0.02, (s.head_s - s.sent_s) / 2); }

}  // namespace headrace::probe
