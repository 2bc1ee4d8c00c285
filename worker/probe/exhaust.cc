// What refusals tell: how much goes through at once, what a 429 carries, whether it counts.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "worker/probe/evidence.h"
#include "worker/probe/findings.h"
#include "worker/probe/pool_keys.h"

namespace headrace::probe {
namespace {

using quota::Dimension;

constexpr absl::string_view kHow = "needs --exhaust, which asks until the provider refuses";

void AboutRetryAfter(const std::vector<Answer>& answers, const std::string& how, Findings* out) {
  Finding finding{
      .topic = "a 429 says when to come back", .value = "not observed", .evidence = how};
  for (const Answer& answer : answers) {
    if (answer.fate != Fate::kThrottled) continue;
    std::vector<std::string> forms;
    for (const auto& [name, value] : answer.limit_headers) {
      if (name == "retry-after" || name == "retry-after-ms") {
        forms.push_back(absl::StrCat(name, ": ", value));
      }
    }
    finding.confidence = Confidence::kCertain;
    finding.value = !forms.empty()       ? absl::StrCat("yes, ", absl::StrJoin(forms, ", "))
                    : answer.retry_after ? "only in the message"
                                         : "no";
    finding.evidence = absl::StrCat("\"", answer.message.substr(0, 160), "\"");
    break;
  }
  out->findings.push_back(std::move(finding));
}

void AboutThrottled(const std::vector<Answer>& answers, const std::string& how, Findings* out) {
  Finding finding{.topic = "requests refused with 429", .value = "not observed", .evidence = how};
  const auto throttled = std::count_if(answers.begin(), answers.end(),
                                       [](const Answer& a) { return a.fate == Fate::kThrottled; });
  if (throttled > 0) {
    finding.evidence = "the headers do not show single requests";
    for (const LimitFindings& limit : out->limits) {
      if (limit.dimension != Dimension::kRequests || !limit.fit.moved) continue;
      const Confidence sure = ConfidenceOf(limit.fit.throttled);
      finding.confidence = sure;
      finding.value = sure == Confidence::kUnclear ? "not told" : limit.fit.throttled[0].name;
      finding.evidence = absl::StrCat("requests left after ", throttled, " refused ones");
    }
  }
  out->findings.push_back(std::move(finding));
}

// How many were let through at once before the first refusal.
void AboutBurst(const std::vector<Answer>& answers, const std::string& how, Findings* out) {
  Finding finding{.topic = "burst", .value = "not observed", .evidence = how};
  double first_sent = -1;
  double refused_at = -1;
  int through = 0;
  double tokens = 0;
  for (const Answer& a : answers) {
    if (a.ask.purpose != Purpose::kExhaust) continue;
    if (first_sent < 0 || a.sent_s < first_sent) first_sent = a.sent_s;
    if (a.fate == Fate::kThrottled && (refused_at < 0 || a.head_s < refused_at)) {
      refused_at = a.head_s;
    }
    if (a.fate == Fate::kAnswered) {
      ++through;
      tokens += PromptTokens(a) + static_cast<double>(a.ask.max_tokens);
    }
  }
  if (first_sent >= 0) {
    finding.confidence = refused_at >= 0 ? Confidence::kCertain : Confidence::kUnclear;
    finding.value = absl::StrCat(refused_at >= 0 ? "" : "more than ", through, " requests, ",
                                 Grouped(tokens), " tokens with max_tokens");
    finding.evidence =
        refused_at >= 0
            ? absl::StrFormat("let through before the first refusal, %.1f s after the first",
                              refused_at - first_sent)
            : "none was refused: a larger --max-requests or --max-tokens-total would go further";
  }
  out->findings.push_back(std::move(finding));
}

// How it opened again after a refusal.
void AboutReopening(const std::vector<Answer>& answers, const std::string& how, Findings* out) {
  Finding finding{.topic = "after a refusal", .value = "not observed", .evidence = how};
  double refused_at = -1;
  double open_at = -1;
  int through = 0;
  int asked = 0;
  for (const Answer& a : answers) {
    if (a.ask.purpose == Purpose::kExhaust && a.fate == Fate::kThrottled && refused_at < 0) {
      refused_at = a.head_s;
    }
    if (a.ask.purpose != Purpose::kReopen || refused_at < 0) continue;
    if (a.fate == Fate::kAnswered && open_at < 0) open_at = a.sent_s;
    if (open_at >= 0) {
      ++asked;
      through += a.fate == Fate::kAnswered;
    }
  }
  if (open_at >= 0) {
    const bool all = asked > 1 && through == asked;
    finding.confidence = asked > 1 ? Confidence::kLikely : Confidence::kUnclear;
    finding.value = all ? "a whole window opens" : "it opens little by little";
    finding.evidence = absl::StrFormat("%.1f s after the refusal %d of %d went through",
                                       open_at - refused_at, through, asked);
    // A bucket that is fast enough looks the same.
    if (all && open_at - refused_at > 5) finding.confidence = Confidence::kUnclear;
  }
  out->findings.push_back(std::move(finding));
}

bool HasKey(const Findings& findings, absl::string_view key) {
  return std::any_of(findings.pool.begin(), findings.pool.end(),
                     [&](const PoolKey& k) { return k.known && k.key == key; });
}

// A 429 that says "Limit 50000, Used 47949, Requested 3006" tells a limit and a charge exactly.
void AboutFigures(const std::vector<Answer>& answers, Findings* out) {
  for (const Answer& a : answers) {
    if (!a.figures || !a.throttled_by) continue;
    const std::optional<std::string> key = LimitKey(*a.throttled_by, "minute");
    if (!key || HasKey(*out, *key)) continue;
    const std::string said =
        absl::StrFormat("a 429 said limit %d, used %d, requested %d", a.figures->limit,
                        a.figures->used, a.figures->requested);
    out->findings.push_back({absl::StrCat("limit of ", quota::DimensionName(*a.throttled_by)),
                             Grouped(static_cast<double>(a.figures->limit)), Confidence::kCertain,
                             said});
    out->pool.push_back({*key, absl::StrCat(a.figures->limit), true, said});
    const double prompt = PromptTokens(a);
    const auto max = static_cast<double>(a.ask.max_tokens);
    const auto requested = static_cast<double>(a.figures->requested);
    if (*a.throttled_by != Dimension::kTokens || HasKey(*out, "charge")) continue;
    // With a short prompt and a large max_tokens the three are far apart.
    const double slack = 0.3 * prompt + 8;
    std::string charge;
    if (std::fabs(requested - max) <= 1) charge = "larger";
    if (std::fabs(requested - max - prompt) <= slack && requested > max + 1) charge = "sum";
    if (requested < max / 2) charge = "actuals";
    if (charge.empty()) continue;
    out->pool.push_back({"charge", charge, true,
                         absl::StrFormat("likely: %.0f were requested for a prompt of %.0f and "
                                         "max_tokens %.0f",
                                         requested, prompt, max)});
  }
}

}  // namespace

void ConcludeFromRefusals(const std::vector<Answer>& answers, const Subject& subject,
                          Findings* findings) {
  const bool throttled = std::any_of(answers.begin(), answers.end(),
                                     [](const Answer& a) { return a.fate == Fate::kThrottled; });
  const std::string how = !subject.exhaust ? std::string(kHow)
                          : throttled      ? "not reached"
                                           : "the provider refused nothing";
  AboutBurst(answers, how, findings);
  AboutRetryAfter(answers, how, findings);
  AboutThrottled(answers, how, findings);
  AboutReopening(answers, how, findings);
  AboutFigures(answers, findings);
}

}  // namespace headrace::probe
