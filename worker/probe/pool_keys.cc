#include "worker/probe/pool_keys.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/quota/profiles.h"
#include "worker/probe/evidence.h"
#include "worker/probe/theory_names.h"

namespace headrace::probe {
namespace {

using quota::Dimension;

// A pool takes no larger limits (common/quota/quota.h).
constexpr double kLargestLimit = 1e12;

std::string Whole(double value) { return absl::StrCat(static_cast<int64_t>(std::llround(value))); }

void AddLimitKey(const LimitFindings& limit, Findings* out) {
  const absl::string_view unit = LimitUnit(limit);
  const std::optional<std::string> key = LimitKey(limit.dimension, unit);
  const std::string per_minute = *LimitKey(limit.dimension, "minute");
  if (!limit.series.limit || *limit.series.limit > kLargestLimit) {
    out->pool.push_back({key.value_or(per_minute), Whole(limit.fit.best.top), false,
                         "at least this: the headers do not say the limit"});
  } else if (key) {
    out->pool.push_back({*key, Whole(*limit.series.limit), true, "by the headers"});
  } else {
    const double minutes = (unit == "day" ? kDayS : kHourS) / kMinuteS;
    out->pool.push_back(
        {per_minute, Whole(std::floor(*limit.series.limit / minutes)), false,
         absl::StrCat("a minute's part: by the headers it is ", Grouped(*limit.series.limit),
                      " per ", unit, ", for which there is no key")});
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
                           limit->fit.explained ? absl::StrCat("not told apart: ", EitherOf(names))
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
                                : absl::StrCat("not told apart: ", EitherOf(names));
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

}  // namespace

std::optional<std::string> LimitKey(Dimension dimension, absl::string_view unit) {
  const bool day = unit == "day";
  if (!day && unit != "minute") return std::nullopt;
  switch (dimension) {
    case Dimension::kRequests:
      return day ? "requests_per_day" : "requests_per_minute";
    case Dimension::kTokens:
      return day ? "tokens_per_day" : "tokens_per_minute";
    case Dimension::kInputTokens:
      if (!day) return "input_tokens_per_minute";
      break;
    case Dimension::kOutputTokens:
      if (!day) return "output_tokens_per_minute";
      break;
    default:
      break;
  }
  return std::nullopt;
}

void AddMeasuredKeys(Findings* findings) {
  std::vector<const LimitFindings*> requests;
  std::vector<const LimitFindings*> tokens;
  for (const LimitFindings& limit : findings->limits) {
    AddLimitKey(limit, findings);
    (limit.dimension == Dimension::kRequests ? requests : tokens).push_back(&limit);
  }
  LeaveOutTheSum(findings);
  AddWindowKey("requests_window", requests, findings);
  AddWindowKey("window", tokens, findings);
  AddChargeKey(tokens, findings);
}

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

}  // namespace headrace::probe
