#include "worker/probe/findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/quota/profiles.h"

namespace headrace::probe {
namespace {

using quota::Dimension;

constexpr Dimension kDimensions[] = {Dimension::kRequests, Dimension::kTokens,
                                     Dimension::kInputTokens, Dimension::kOutputTokens};

constexpr absl::string_view kUnexplained =
    "what was left follows no way of counting that is known: somebody else uses it, or it counts "
    "in another way";

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

std::string KeyOf(Dimension dimension, absl::string_view window) {
  const bool day = window == "day";
  switch (dimension) {
    case Dimension::kRequests:
      return day ? "requests_per_day" : "requests_per_minute";
    case Dimension::kTokens:
      return day ? "tokens_per_day" : "tokens_per_minute";
    case Dimension::kInputTokens:
      return "input_tokens_per_minute";
    default:
      return "output_tokens_per_minute";
  }
}

std::string Words(const std::vector<std::string>& names) { return absl::StrJoin(names, " or "); }

// Weaker when somebody else seems to use the quota, too.
Confidence Shaken(Confidence confidence, const Fit& fit) {
  if (fit.less_than_due * 4 < fit.compared) return confidence;
  return confidence == Confidence::kCertain ? Confidence::kLikely : Confidence::kUnclear;
}

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

void AboutHeaders(const std::vector<Answer>& answers, Findings* out) {
  std::map<std::string, std::string> seen;
  for (const Answer& answer : answers) {
    for (const auto& [name, value] : answer.limit_headers) seen.try_emplace(name, value);
  }
  Finding finding{.topic = "headers"};
  std::vector<std::string> names;
  std::vector<std::string> examples;
  for (const LimitFindings& limit : out->limits) names.emplace_back(NameOf(limit.dimension));
  for (const auto& [name, value] : seen) examples.push_back(absl::StrCat(name, ": ", value));
  if (names.empty()) {
    finding.value = "none that say what is left";
    finding.evidence = examples.empty() ? absl::StrCat("in ", answers.size(), " answers")
                                        : absl::StrJoin(examples, ", ");
  } else {
    finding.value = absl::StrCat("of ", absl::StrJoin(names, ", "));
    finding.evidence = absl::StrJoin(examples, ", ");
  }
  finding.confidence = answers.empty() ? Confidence::kNotSeen : Confidence::kCertain;
  out->findings.push_back(std::move(finding));
}

void AboutLimit(const LimitFindings& limit, Findings* out) {
  const std::string name(NameOf(limit.dimension));
  const Fit& fit = limit.fit;
  const absl::string_view window = fit.window.empty() ? "" : absl::string_view(fit.window[0].name);
  const Confidence sure = Shaken(ConfidenceOf(fit.window), fit);
  const bool told = fit.moved && (sure == Confidence::kCertain || sure == Confidence::kLikely);
  // A limit for a day is one only when that is clear.
  const absl::string_view unit = told && window == "day" ? "day" : "minute";
  // A pool takes no larger ones (common/quota/quota.h).
  constexpr double kLargest = 1e12;
  if (limit.series.limit && *limit.series.limit <= kLargest) {
    const auto value = static_cast<int64_t>(std::llround(*limit.series.limit));
    out->findings.push_back({absl::StrCat("limit of ", name),
                             absl::StrCat(Grouped(*limit.series.limit), " per ", unit),
                             Confidence::kCertain, "by the headers"});
    out->pool.push_back(
        {KeyOf(limit.dimension, unit), absl::StrCat(value), true, "by the headers"});
  } else {
    out->findings.push_back({absl::StrCat("limit of ", name),
                             absl::StrCat("at least ", Grouped(fit.best.top)), Confidence::kUnclear,
                             "the headers say what is left, but no sensible limit"});
    out->pool.push_back({KeyOf(limit.dimension, unit), Grouped(fit.best.top), false,
                         "at least this: the headers do not say the limit"});
  }
  Finding counting{.topic = absl::StrCat("counting of ", name)};
  if (!fit.moved || !fit.explained) {
    counting.value = "not told";
    counting.evidence = fit.moved
                            ? std::string(kUnexplained)
                            : "what is left was always the same: too little was used to be seen";
    out->findings.push_back(std::move(counting));
    return;
  }
  counting.value = Words(AsGood(fit.counting));
  counting.confidence = Shaken(ConfidenceOf(fit.counting), fit);
  counting.evidence = CountingEvidence(limit);
  out->findings.push_back(std::move(counting));
  out->findings.push_back(
      {absl::StrCat("most ", name, " at once"), Grouped(fit.best.top),
       fit.best.top == limit.series.limit ? Confidence::kLikely : Confidence::kUnclear,
       "by what is left when nothing is used; whether that much is let through at once needs "
       "--exhaust"});
}

// What calls of one kind took, in the middle.
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

void AboutCharge(const LimitFindings& limit, Findings* out) {
  const std::string name(NameOf(limit.dimension));
  const Fit& fit = limit.fit;
  Finding at_send{.topic = absl::StrCat(name, " charged at the start")};
  Finding at_end{.topic = absl::StrCat(name, " after the answer")};
  if (!fit.moved || !fit.explained) {
    at_send.value = at_end.value = "not told";
    at_send.evidence =
        fit.moved ? std::string(kUnexplained) : "too little was used to be seen in the headers";
    at_end.evidence = at_send.evidence;
  } else {
    at_send.value = Words(AsGood(fit.at_send));
    at_send.confidence = Shaken(ConfidenceOf(fit.at_send), fit);
    at_send.evidence = ChargeTable(limit);
    at_end.value = Words(AsGood(fit.at_end));
    at_end.confidence = Shaken(ConfidenceOf(fit.at_end), fit);
    at_end.evidence = fit.best.at_end == AtEnd::kKept
                          ? "short answers gave nothing back"
                          : "the next answer's headers show the usage in place of the charge";
  }
  out->findings.push_back(std::move(at_send));
  out->findings.push_back(std::move(at_end));
}

void AboutCached(const std::vector<Answer>& answers, Findings* out) {
  Finding finding{.topic = "cached tokens", .value = "not observed"};
  int64_t most = 0;
  for (const Answer& answer : answers) {
    most = std::max(most, answer.usage.cached_tokens.value_or(0));
  }
  if (most == 0) {
    finding.evidence = "no answer said that a part of its prompt came from a cache";
  } else {
    finding.evidence = absl::StrCat("a prompt with ", most,
                                    " cached tokens; they are charged at "
                                    "the start, if prompts are");
    for (const LimitFindings& limit : out->limits) {
      if (limit.dimension == Dimension::kRequests || !limit.fit.moved) continue;
      if (limit.fit.best.at_end == AtEnd::kKept) continue;
      finding.value = limit.fit.best.at_end == AtEnd::kUncached ? "are free" : "count";
      finding.confidence = ConfidenceOf(limit.fit.at_end);
      break;
    }
  }
  out->findings.push_back(std::move(finding));
}

void AboutRefused(const std::vector<Answer>& answers, Findings* out) {
  Finding finding{.topic = "requests refused as wrong", .value = "not observed"};
  int refused = 0;
  int sent = 0;
  for (const Answer& answer : answers) {
    sent += answer.ask.wrong;
    refused += answer.fate == Fate::kRefused;
  }
  const auto requests =
      std::find_if(out->limits.begin(), out->limits.end(),
                   [](const LimitFindings& l) { return l.dimension == Dimension::kRequests; });
  if (refused == 0) {
    finding.evidence =
        sent > 0 ? "the provider took a temperature of 1000 for a good request" : "none was sent";
  } else if (requests == out->limits.end() || !requests->fit.moved) {
    finding.evidence = "the headers do not show single requests";
  } else {
    finding.confidence = Shaken(ConfidenceOf(requests->fit.refused), requests->fit);
    if (finding.confidence == Confidence::kUnclear) {
      finding.value = "not told";
      finding.evidence = absl::StrCat(refused,
                                      " were refused; requests come back too fast to see "
                                      "whether they count");
    } else {
      finding.value = requests->fit.refused[0].name;
      finding.evidence = absl::StrCat("requests left after ", refused, " refused ones");
    }
  }
  out->findings.push_back(std::move(finding));
}

void AboutOthers(Findings* out) {
  for (const LimitFindings& limit : out->limits) {
    if (limit.fit.less_than_due * 4 < limit.fit.compared || limit.fit.compared == 0) continue;
    out->findings.push_back({absl::StrCat("somebody else uses ", NameOf(limit.dimension)), "yes",
                             Confidence::kLikely,
                             absl::StrCat(limit.fit.less_than_due, " of ", limit.fit.compared,
                                          " answers showed less left than we had used; try again "
                                          "while the account is quiet")});
  }
}

// The window of several limits in a job file: what all that are told apart agree on.
void AddWindowKey(const std::string& key, const std::vector<const LimitFindings*>& limits,
                  Findings* out) {
  for (const LimitFindings* limit : limits) {
    if (!limit->fit.moved) continue;
    const std::vector<std::string> names = AsGood(limit->fit.window);
    if (names.size() == 1 && (names[0] == "day" || names[0] == "hour")) continue;
    if (names.size() == 1) {
      out->pool.push_back({key, names[0], true,
                           absl::StrCat(ConfidenceName(ConfidenceOf(limit->fit.window)), ": ",
                                        CountingEvidence(*limit))});
    } else {
      out->pool.push_back({key, names[0], false,
                           limit->fit.explained ? absl::StrCat("not told apart: ", Words(names))
                                                : std::string(kUnexplained)});
    }
    return;
  }
  if (!limits.empty()) out->pool.push_back({key, "continuous", false, "not observed"});
}

void AddChargeKey(const std::vector<const LimitFindings*>& limits, Findings* out) {
  for (const LimitFindings* limit : limits) {
    if (!limit->fit.moved) continue;
    std::vector<std::string> names = AsGood(limit->fit.charge);
    // Of a kind of tokens alone both come to the same.
    const bool kind = limit->dimension != Dimension::kTokens;
    for (std::string& name : names) {
      if (name == "prompt") name = "actuals";
      if (kind && name == "nothing") name = "actuals";
    }
    std::sort(names.begin() + 1, names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (names.size() > 1 && names[0] == names[1]) names.erase(names.begin());
    const bool known = names.size() == 1 && names[0] != "nothing" && limit->fit.explained;
    std::string comment = known ? absl::StrCat(ConfidenceName(ConfidenceOf(limit->fit.charge)),
                                               ": ", ChargeTable(*limit))
                                : absl::StrCat("not told apart: ", Words(names));
    if (known && limit->fit.charge[0].name == "prompt" && !kind) {
      comment = absl::StrCat("only prompts are charged, which is less than this; ", comment);
    }
    out->pool.push_back({"charge", names[0] == "nothing" ? "actuals" : names[0], known, comment});
    return;
  }
  if (!limits.empty()) out->pool.push_back({"charge", "actuals", false, "not observed"});
}

// Where input and output have limits of their own, the one of both together is their sum or
// whichever is closest (Anthropic): the two say it all.
void LeaveOutTheSum(Findings* out) {
  bool input = false;
  bool output = false;
  for (const PoolKey& key : out->pool) {
    input = input || key.key == "input_tokens_per_minute";
    output = output || key.key == "output_tokens_per_minute";
  }
  for (PoolKey& key : out->pool) {
    if (key.key != "tokens_per_minute" || !input || !output) continue;
    key.known = false;
    key.comment = "by the headers; input and output are limited apart";
  }
}

// A profile for what has no key of its own.
void AddProfileKey(const Subject& subject, Findings* out) {
  const quota::Profile* host = quota::ProfileOfEndpoint(subject.provider, subject.endpoint);
  if (host->name != "generic") {
    out->pool.insert(out->pool.begin(), {"profile", std::string(host->name), true,
                                         "by the host; the keys below are what was seen"});
    return;
  }
  std::string profile = "generic";
  std::string comment = "the host is none that headrace knows";
  for (const LimitFindings& limit : out->limits) {
    if (!limit.fit.throttled.empty() && limit.fit.throttled[0].name == "are free" &&
        ConfidenceOf(limit.fit.throttled) <= Confidence::kLikely) {
      profile = "groq";
      comment = "counts as groq does: what is refused with 429 is free";
    }
  }
  for (const LimitFindings& limit : out->limits) {
    if (limit.fit.moved && limit.fit.best.at_end == AtEnd::kUncached &&
        ConfidenceOf(limit.fit.at_end) <= Confidence::kLikely) {
      profile = "anthropic";
      comment = "counts as anthropic does: cached tokens are free";
    }
  }
  out->pool.insert(out->pool.begin(), {"profile", profile, true, comment});
}

}  // namespace

std::string Grouped(double value) {
  std::string digits = absl::StrCat(static_cast<int64_t>(std::llround(value)));
  for (int at = static_cast<int>(digits.size()) - 3; at > (digits[0] == '-' ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

Findings Conclude(const std::vector<Answer>& answers, const Subject& subject) {
  Findings out;
  for (const Dimension dimension : kDimensions) {
    LimitFindings limit;
    limit.dimension = dimension;
    limit.series = MakeSeries(answers, dimension);
    limit.fit = FitSeries(limit.series);
    if (limit.fit.seen) out.limits.push_back(std::move(limit));
  }
  AboutHeaders(answers, &out);
  std::vector<const LimitFindings*> requests;
  std::vector<const LimitFindings*> tokens;
  for (const LimitFindings& limit : out.limits) {
    AboutLimit(limit, &out);
    const bool is_requests = limit.dimension == Dimension::kRequests;
    (is_requests ? requests : tokens).push_back(&limit);
    if (!is_requests) AboutCharge(limit, &out);
  }
  LeaveOutTheSum(&out);
  AboutCached(answers, &out);
  AboutRefused(answers, &out);
  AboutOthers(&out);
  AddWindowKey("requests_window", requests, &out);
  AddWindowKey("window", tokens, &out);
  AddChargeKey(tokens, &out);
  ConcludeFromRefusals(answers, subject, &out);
  AddProfileKey(subject, &out);
  return out;
}

}  // namespace headrace::probe
