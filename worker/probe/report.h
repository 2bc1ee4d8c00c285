// What the probe prints: a block for a job file, tables for people, JSON for machines. Pure.
#ifndef HEADRACE_WORKER_PROBE_REPORT_H_
#define HEADRACE_WORKER_PROBE_REPORT_H_

#include <string>
#include <vector>

#include "worker/probe/findings.h"
#include "worker/probe/plan.h"

namespace headrace::probe {

struct ReportSubject {
  std::string provider;
  std::string model;
  std::string endpoint;
  std::string api_key_env;  // or
  std::string api_key_file;
  std::string ca_file;
};

// `pools` and `models` of a job file, each key of the pool with what it rests on as a comment.
std::string YamlBlock(const ReportSubject& subject, const Findings& findings, const Plan& plan);

// What was tried and seen.
std::string Tables(const Findings& findings, const Plan& plan);

// One line of an answer, while the probe runs.
std::string AnswerLine(size_t number, const Answer& answer);

// All of it as one JSON object on one line.
std::string ReportJson(const ReportSubject& subject, const Findings& findings, const Plan& plan);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_REPORT_H_
