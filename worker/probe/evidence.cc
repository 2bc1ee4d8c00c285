#include "worker/probe/evidence.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "worker/probe/theory_names.h"

namespace headrace::probe {
namespace {

using quota::Dimension;

// The largest rise of what is left from one answer to the next, the charge between them taken out.
struct Rise {
  double from = 0;
  double to = 0;
  double seconds = 0;
};
std::optional<Rise> LargestRise(const LimitFindings& limit) {
  std::optional<Rise> largest;
  const Step* last = nullptr;
  for (const Step& step : limit.fit.steps) {
    if (last != nullptr) {
      const double charge = std::max(step.before - step.expected, 0.0);
      const Rise rise{
          last->seen, step.seen + charge,
          limit.series.samples[step.sample].sent_s - limit.series.samples[last->sample].sent_s};
      if (rise.to > rise.from && (!largest || rise.to - rise.from > largest->to - largest->from)) {
        largest = rise;
      }
    }
    last = &step;
  }
  return largest;
}

bool ResetsFit(const LimitFindings& limit) {
  const auto with = std::count_if(limit.series.samples.begin(), limit.series.samples.end(),
                                  [](const Sample& s) { return s.reset_s && s.remaining; });
  return with >= 2 && ResetLoss(limit.series, limit.fit.best) < 0.25 * static_cast<double>(with);
}

}  // namespace

absl::string_view NameOf(Dimension dimension) {
  switch (dimension) {
    case Dimension::kRequests:
      return "requests";
    case Dimension::kInputTokens:
      return "input tokens";
    case Dimension::kOutputTokens:
      return "output tokens";
    default:
      return "tokens";
  }
}

std::string EitherOf(const std::vector<std::string>& names) { return absl::StrJoin(names, " or "); }

Confidence Shaken(Confidence confidence, const Fit& fit) {
  if (fit.less_than_due * 4 < fit.compared) return confidence;
  return confidence == Confidence::kCertain ? Confidence::kLikely : Confidence::kUnclear;
}

absl::string_view LimitUnit(const LimitFindings& limit) {
  const Confidence sure = Shaken(ConfidenceOf(limit.fit.window), limit.fit);
  const bool told =
      limit.fit.moved && (sure == Confidence::kCertain || sure == Confidence::kLikely);
  const absl::string_view key = WindowKey(limit.fit.best);
  return told && (key == "day" || key == "hour") ? key : "minute";
}

std::string Grouped(double value) { return FormatGrouped(std::llround(value)); }

std::string CountingEvidence(const LimitFindings& limit) {
  const Theory& best = limit.fit.best;
  std::vector<std::string> parts;
  if (const std::optional<Rise> rise = LargestRise(limit)) {
    parts.push_back(absl::StrFormat("what is left went from %s to %s within %.1f s",
                                    Grouped(rise->from), Grouped(rise->to), rise->seconds));
    if (best.counting == Counting::kBucket && best.rate > 0) {
      parts.back() += absl::StrCat(
          " (", best.rate < 10 ? absl::StrFormat("%.3g", best.rate) : Grouped(best.rate),
          " come back each second)");
    }
  } else {
    parts.push_back("what is left only fell");
  }
  if (ResetsFit(limit)) {
    switch (best.counting) {
      case Counting::kBucket:
        parts.push_back("resets tell the time until all is back");
        break;
      case Counting::kSliding:
        parts.push_back("resets tell the time until a request leaves the window");
        break;
      default:
        parts.push_back("resets tell the time until the window ends");
    }
  }
  if (best.counting == Counting::kFixed && limit.series.wall_s != 0 && best.period_s >= 10) {
    const double past = std::fmod(limit.series.wall_s + best.phase_s, best.period_s);
    const double off = std::min(past, best.period_s - past);
    parts.push_back(off <= 2
                        ? "windows begin with the provider's clock"
                        : absl::StrFormat("windows begin %.0f s past the %s", past,
                                          best.period_s == 60 ? "full minute" : "full period"));
  }
  return absl::StrJoin(parts, "; ");
}

std::string ChargeTable(const LimitFindings& limit) {
  struct Kind {
    std::vector<double> taken;
    double prompt = 0;
    double max_tokens = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Kind> kinds;
  for (const Step& step : limit.fit.steps) {
    const Sample& s = limit.series.samples[step.sample];
    if (s.fate != Fate::kAnswered) continue;
    Kind& kind = kinds[{static_cast<int64_t>(s.prompt / 100), static_cast<int64_t>(s.max_tokens)}];
    kind.taken.push_back(step.before - step.seen);
    kind.prompt = s.prompt;
    kind.max_tokens = s.max_tokens;
  }
  std::vector<std::string> parts;
  for (auto& [key, kind] : kinds) {
    std::nth_element(kind.taken.begin(), kind.taken.begin() + kind.taken.size() / 2,
                     kind.taken.end());
    parts.push_back(absl::StrFormat("prompt %.0f, max_tokens %.0f: %s", kind.prompt,
                                    kind.max_tokens,
                                    Grouped(std::max(kind.taken[kind.taken.size() / 2], 0.0))));
  }
  return parts.empty() ? "" : absl::StrCat("what is left fell by: ", absl::StrJoin(parts, "; "));
}

}  // namespace headrace::probe
