// What the probe concludes from the answers: findings with what they rest on, and the keys of a
// pool in a job file. Pure.
#ifndef HEADRACE_WORKER_PROBE_FINDINGS_H_
#define HEADRACE_WORKER_PROBE_FINDINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/probe/exchange.h"
#include "worker/probe/fit.h"

namespace headrace::probe {

struct Finding {
  std::string topic{};  // "limit of tokens", "refused requests", ...
  std::string value{};  // the answer, in words
  Confidence confidence = Confidence::kNotSeen;
  std::string evidence{};  // what was seen, or what would show it
};

// One key of docs/job_file.md#pools. What is not known is written as a comment.
struct PoolKey {
  std::string key;
  std::string value;
  bool known = false;
  std::string comment;
};

struct LimitFindings {
  quota::Dimension dimension = quota::Dimension::kRequests;
  Series series;
  Fit fit;
};

struct Findings {
  std::vector<LimitFindings> limits;  // that the headers speak of
  std::vector<Finding> findings;
  std::vector<PoolKey> pool;
};

struct Subject {
  std::string provider;
  std::string endpoint;
  bool exhaust = false;  // whether the quota might be used up
};

Findings Conclude(const std::vector<Answer>& answers, const Subject& subject);

// The parts of Conclude() that need a refusal, in exhaust.cc: bursts, 429s and what they carry,
// limits without headers.
void ConcludeFromRefusals(const std::vector<Answer>& answers, const Subject& subject,
                          Findings* findings);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_FINDINGS_H_
