// What was seen, in the words of a finding. Pure.
#ifndef HEADRACE_WORKER_PROBE_EVIDENCE_H_
#define HEADRACE_WORKER_PROBE_EVIDENCE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/probe/findings.h"

namespace headrace::probe {

// Instead of evidence, where no theory explains a limit.
inline constexpr absl::string_view kUnexplained =
    "what was left follows no way of counting that is known: somebody else uses it, or it counts "
    "in another way";

// "input tokens".
absl::string_view NameOf(quota::Dimension dimension);
// "continuous or minute".
std::string EitherOf(const std::vector<std::string>& names);
// Weaker where somebody else seems to use the quota, too.
Confidence Shaken(Confidence confidence, const Fit& fit);
// The unit of time of a limit: "minute", but where it is clear that it is another.
absl::string_view LimitUnit(const LimitFindings& limit);
// "12,345".
std::string Grouped(double value);
// How what was used came back, as the best theory sees it.
std::string CountingEvidence(const LimitFindings& limit);
// What calls of each kind took, in the middle: "prompt 36, max_tokens 16: 36; ...".
std::string ChargeTable(const LimitFindings& limit);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_EVIDENCE_H_
