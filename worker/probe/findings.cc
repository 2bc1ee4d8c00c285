#include "worker/probe/findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "worker/probe/evidence.h"
#include "worker/probe/pool_keys.h"

namespace headrace::probe {
namespace {

using quota::Dimension;

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
  if (limit.series.limit) {
    out->findings.push_back({absl::StrCat("limit of ", name),
                             absl::StrCat(Grouped(*limit.series.limit), " per ", LimitUnit(limit)),
                             Confidence::kCertain, "by the headers"});
  } else {
    out->findings.push_back({absl::StrCat("limit of ", name),
                             absl::StrCat("at least ", Grouped(fit.best.top)), Confidence::kUnclear,
                             "the headers say what is left, but not the limit"});
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
  counting.value = EitherOf(AsGood(fit.counting));
  counting.confidence = Shaken(ConfidenceOf(fit.counting), fit);
  counting.evidence = CountingEvidence(limit);
  out->findings.push_back(std::move(counting));
  out->findings.push_back(
      {absl::StrCat("most ", name, " at once"), Grouped(fit.best.top),
       fit.best.top == limit.series.limit ? Confidence::kLikely : Confidence::kUnclear,
       "by what is left when nothing is used; whether that much is let through at once needs "
       "--exhaust"});
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
    at_send.value = EitherOf(AsGood(fit.at_send));
    at_send.confidence = Shaken(ConfidenceOf(fit.at_send), fit);
    at_send.evidence = ChargeTable(limit);
    at_end.value = EitherOf(AsGood(fit.at_end));
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

}  // namespace

Findings Conclude(const std::vector<Answer>& answers, const Subject& subject) {
  Findings out;
  for (const Dimension dimension : kToldDimensions) {
    LimitFindings limit;
    limit.dimension = dimension;
    limit.series = MakeSeries(answers, dimension);
    limit.fit = FitSeries(limit.series);
    if (limit.fit.seen) out.limits.push_back(std::move(limit));
  }
  AboutHeaders(answers, &out);
  for (const LimitFindings& limit : out.limits) {
    AboutLimit(limit, &out);
    if (limit.dimension != Dimension::kRequests) AboutCharge(limit, &out);
  }
  AboutCached(answers, &out);
  AboutRefused(answers, &out);
  AboutOthers(&out);
  AddMeasuredKeys(&out);
  ConcludeFromRefusals(answers, subject, &out);
  AddProfileKey(subject, &out);
  return out;
}

}  // namespace headrace::probe
