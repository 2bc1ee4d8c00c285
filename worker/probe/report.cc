#include "worker/probe/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "worker/probe/evidence.h"

namespace headrace::probe {
namespace {

// JSON strings are YAML strings.
std::string Quoted(absl::string_view text) {
  std::string quoted;
  AppendJsonString(text, &quoted);
  return quoted;
}

absl::string_view EndName(PlanEnd end) {
  switch (end) {
    case PlanEnd::kNotYet:
      return "interrupted";
    case PlanEnd::kDone:
      return "done";
    case PlanEnd::kRequests:
      return "requests_used";
    case PlanEnd::kTokens:
      return "tokens_used";
    case PlanEnd::kQuotaLow:
      return "quota_low";
    case PlanEnd::kThrottled:
      return "throttled";
    case PlanEnd::kCredentials:
      return "credentials";
    case PlanEnd::kMoney:
      return "money";
    case PlanEnd::kConfig:
      return "config";
    case PlanEnd::kUnreachable:
      return "unreachable";
    case PlanEnd::kNoProvider:
      return "no_provider";
    case PlanEnd::kErrors:
      return "errors";
  }
  return "";
}

absl::string_view FateName(Fate fate) {
  switch (fate) {
    case Fate::kAnswered:
      return "answered";
    case Fate::kRefused:
      return "refused";
    case Fate::kThrottled:
      return "throttled";
    case Fate::kFailed:
      return "failed";
  }
  return "";
}

struct Totals {
  int requests = 0;
  int64_t input = 0;
  int64_t output = 0;
};
Totals Sum(const std::vector<Answer>& answers) {
  Totals totals;
  for (const Answer& a : answers) {
    ++totals.requests;
    totals.input += a.usage.prompt_tokens.value_or(0);
    totals.output += a.usage.completion_tokens.value_or(0);
  }
  return totals;
}

std::string Left(const provider::RateHeaders::Limit& words) {
  if (!words.remaining && !words.limit) return "";
  return absl::StrCat(
      words.remaining ? absl::StrCat(*words.remaining) : "?", "/",
      words.limit ? absl::StrCat(*words.limit) : "?",
      words.reset ? absl::StrFormat(" reset %.3gs", absl::ToDoubleSeconds(*words.reset)) : "");
}

std::string LeftOf(const provider::RateHeaders& rate) {
  std::vector<std::string> parts;
  const std::pair<absl::string_view, const provider::RateHeaders::Limit*> all[] = {
      {"requests", &rate.requests},
      {"tokens", &rate.tokens},
      {"input", &rate.input_tokens},
      {"output", &rate.output_tokens}};
  for (const auto& [name, words] : all) {
    const std::string left = Left(*words);
    if (!left.empty()) parts.push_back(absl::StrCat(name, " ", left));
  }
  return absl::StrJoin(parts, ", ");
}

void LimitJson(absl::string_view name, const provider::RateHeaders::Limit& words,
               JsonWriter* json) {
  if (!words.limit && !words.remaining && !words.reset) return;
  json->Key(name).BeginObject();
  if (words.limit) json->Key("limit").Int(*words.limit);
  if (words.remaining) json->Key("remaining").Int(*words.remaining);
  if (words.reset) json->Key("reset_s").Fixed(absl::ToDoubleSeconds(*words.reset), 3);
  json->EndObject();
}

void AnswerJson(const Answer& a, JsonWriter* json) {
  json->BeginObject();
  json->Key("purpose").String(PurposeName(a.ask.purpose));
  json->Key("max_tokens").Int(a.ask.max_tokens);
  json->Key("sent_s").Fixed(a.sent_s, 3);
  json->Key("head_s").Fixed(a.head_s, 3);
  json->Key("end_s").Fixed(a.end_s, 3);
  json->Key("status").Int(a.status);
  json->Key("fate").String(FateName(a.fate));
  if (a.usage.prompt_tokens) json->Key("prompt_tokens").Int(*a.usage.prompt_tokens);
  if (a.usage.completion_tokens) json->Key("completion_tokens").Int(*a.usage.completion_tokens);
  if (a.usage.cached_tokens) json->Key("cached_tokens").Int(*a.usage.cached_tokens);
  LimitJson("requests", a.rate.requests, json);
  LimitJson("tokens", a.rate.tokens, json);
  LimitJson("input_tokens", a.rate.input_tokens, json);
  LimitJson("output_tokens", a.rate.output_tokens, json);
  if (!a.message.empty()) json->Key("message").String(a.message);
  json->EndObject();
}

}  // namespace

std::string YamlBlock(const ReportSubject& subject, const Findings& findings, const Plan& plan) {
  const Totals totals = Sum(plan.answers());
  std::string out = absl::StrCat("# headrace probe of ", PlainLine(subject.model), " at ",
                                 PlainLine(subject.endpoint), ": ", totals.requests, " requests, ",
                                 Grouped(static_cast<double>(totals.input)), " tokens in, ",
                                 Grouped(static_cast<double>(totals.output)), " out\n");
  if (plan.end() != PlanEnd::kDone) {
    absl::StrAppend(
        &out, "# Not complete: ", plan.why().empty() ? "interrupted" : PlainLine(plan.why()), "\n");
  }
  absl::StrAppend(&out, "pools:\n  probed:\n");
  for (const PoolKey& key : findings.pool) {
    absl::StrAppend(&out, "    ", key.known ? "" : "# ", key.key, ": ", key.value, "  # ",
                    PlainLine(key.comment), "\n");
  }
  absl::StrAppend(&out, "models:\n  - name: ", Quoted(subject.model),
                  "\n    provider: ", subject.provider,
                  "\n    endpoint: ", Quoted(subject.endpoint), "\n");
  if (!subject.api_key_env.empty()) {
    absl::StrAppend(&out, "    api_key: {env: ", Quoted(subject.api_key_env), "}\n");
  } else if (!subject.api_key_file.empty()) {
    absl::StrAppend(&out, "    api_key: {file: ", Quoted(subject.api_key_file), "}\n");
  }
  if (!subject.ca_file.empty()) {
    absl::StrAppend(&out, "    ca_file: ", Quoted(subject.ca_file), "\n");
  }
  absl::StrAppend(&out, "    pool: probed\n");
  return out;
}

std::string AnswerLine(size_t number, const Answer& a) {
  std::string out = absl::StrFormat("%3d %7.2fs %6.0fms  %3d  ", number, a.sent_s,
                                    (a.end_s - a.sent_s) * 1000, a.status);
  absl::StrAppend(&out, PurposeName(a.ask.purpose), ", max_tokens ", a.ask.max_tokens);
  if (a.usage.prompt_tokens) {
    absl::StrAppend(&out, ", ", *a.usage.prompt_tokens, " in ",
                    a.usage.completion_tokens.value_or(0), " out");
  }
  const std::string left = LeftOf(a.rate);
  if (!left.empty()) absl::StrAppend(&out, "; left: ", left);
  if (!a.message.empty()) absl::StrAppend(&out, "; ", PlainLine(a.message.substr(0, 120)));
  return out;
}

std::string Tables(const Findings& findings, const Plan& plan) {
  std::string out = "What was tried:\n";
  std::map<Purpose, std::map<Fate, int>> tried;
  for (const Answer& a : plan.answers()) ++tried[a.ask.purpose][a.fate];
  for (const auto& [purpose, fates] : tried) {
    std::vector<std::string> parts;
    for (const auto& [fate, count] : fates)
      parts.push_back(absl::StrCat(count, " ", FateName(fate)));
    absl::StrAppend(&out, absl::StrFormat("  %-20s ", PurposeName(purpose)),
                    absl::StrJoin(parts, ", "), "\n");
  }
  const Totals totals = Sum(plan.answers());
  const double seconds = plan.answers().empty() ? 0 : plan.answers().back().end_s;
  absl::StrAppendFormat(&out, "  in all %d requests in %.0f s, %s tokens in, %s out\n",
                        totals.requests, seconds, Grouped(static_cast<double>(totals.input)),
                        Grouped(static_cast<double>(totals.output)));
  absl::StrAppend(&out, "What was found:\n");
  for (const Finding& f : findings.findings) {
    absl::StrAppendFormat(
        &out, "  %-36s %s\n", f.topic,
        f.confidence == Confidence::kNotSeen || f.confidence == Confidence::kUnclear
            ? absl::StrCat(f.value, f.value == "not observed" ? "" : " (unclear)")
            : absl::StrCat(f.value, " (", ConfidenceName(f.confidence), ")"));
    if (!f.evidence.empty()) absl::StrAppend(&out, "      ", PlainLine(f.evidence), "\n");
  }
  if (!plan.why().empty()) absl::StrAppend(&out, "It ended early: ", PlainLine(plan.why()), "\n");
  return out;
}

std::string ReportJson(const ReportSubject& subject, const Findings& findings, const Plan& plan) {
  std::string out;
  JsonWriter json(&out);
  const Totals totals = Sum(plan.answers());
  json.BeginObject();
  json.Key("model").String(subject.model);
  json.Key("provider").String(subject.provider);
  json.Key("endpoint").String(subject.endpoint);
  json.Key("end").String(EndName(plan.end()));
  json.Key("why").String(plan.why());
  json.Key("requests").Int(totals.requests);
  json.Key("input_tokens").Int(totals.input);
  json.Key("output_tokens").Int(totals.output);
  json.Key("pool").BeginObject();
  for (const PoolKey& key : findings.pool) {
    if (!key.known) continue;
    const bool number = !key.value.empty() && absl::ascii_isdigit(key.value[0]) &&
                        key.value.find_first_not_of("0123456789") == std::string::npos;
    json.Key(key.key);
    if (number) {
      json.Raw(key.value);
    } else {
      json.String(key.value);
    }
  }
  json.EndObject();
  json.Key("findings").BeginArray();
  for (const Finding& f : findings.findings) {
    json.BeginObject();
    json.Key("topic").String(f.topic);
    json.Key("value").String(f.value);
    json.Key("confidence").String(ConfidenceName(f.confidence));
    json.Key("evidence").String(f.evidence);
    json.EndObject();
  }
  json.EndArray();
  json.Key("answers").BeginArray();
  for (const Answer& a : plan.answers()) AnswerJson(a, &json);
  json.EndArray();
  json.EndObject();
  return out;
}

}  // namespace headrace::probe
