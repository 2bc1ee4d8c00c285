#include "worker/provider/classify.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/provider/rate_headers.h"

namespace headrace::provider {
namespace {

using quota::Dimension;
using quota::Settlement;

// Calls `fits` with each part of "a|b|c" until it says yes.
template <typename F>
bool AnyOf(absl::string_view list, F fits) {
  while (!list.empty()) {
    const size_t bar = list.find('|');
    if (fits(list.substr(0, bar))) return true;
    list = bar == absl::string_view::npos ? absl::string_view() : list.substr(bar + 1);
  }
  return false;
}

bool StatusFits(absl::string_view pattern, int status) {
  if (pattern.size() == 3 && pattern[1] == 'x') return status / 100 == pattern[0] - '0';
  int wanted = 0;
  return absl::SimpleAtoi(pattern, &wanted) && wanted == status;
}

bool WordFits(absl::string_view pattern, const ProviderError& error) {
  if (!absl::EndsWith(pattern, "*")) return error.HasWord(pattern);
  pattern.remove_suffix(1);
  return std::any_of(error.words.begin(), error.words.end(), [pattern](const std::string& word) {
    return absl::StartsWithIgnoreCase(word, pattern);
  });
}

// `haystack` is lower case already.
bool TextFits(absl::string_view pattern, absl::string_view haystack) {
  return absl::StrContains(haystack, absl::AsciiStrToLower(pattern));
}

// The number after `word` in a message such as "Limit 30,000, Requested 34307".
std::optional<int64_t> NumberAfter(absl::string_view text, absl::string_view word) {
  const size_t found = text.find(word);
  if (found == absl::string_view::npos) return std::nullopt;
  size_t pos = found + word.size();
  while (pos < text.size() && (text[pos] == ' ' || text[pos] == ':')) ++pos;
  std::string digits;
  for (; pos < text.size(); ++pos) {
    const bool comma =
        text[pos] == ',' && pos + 1 < text.size() && absl::ascii_isdigit(text[pos + 1]);
    if (!absl::ascii_isdigit(text[pos]) && !comma) break;
    if (!comma) digits.push_back(text[pos]);
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(digits, &value)) return std::nullopt;
  return value;
}

// Fields that every item fills with its own content; all others come from the job.
bool IsItemField(absl::string_view param) {
  const absl::string_view root = param.substr(0, param.find_first_of(".["));
  for (absl::string_view field : {"messages", "prompt", "input", "system", "contents", "content",
                                  "instructions", "user", "image", "image_url", "body"}) {
    if (root == field) return true;
  }
  return false;
}

uint32_t FactsOf(const ErrorAnswer& answer, const std::optional<absl::Duration>& wait) {
  uint32_t facts = 0;
  if (!wait) facts |= kFactNoWait;
  if (wait && *wait <= kShortWait) facts |= kFactShortWait;
  if (wait && *wait > kLongestWait) facts |= kFactLongWait;
  if (wait && *wait == absl::Seconds(86400)) facts |= kFactDayWait;
  if (RequestedExceedsLimit(answer.error.message)) facts |= kFactOverLimit;
  for (const std::string& id : answer.error.quota_ids) {
    const std::string lower = absl::AsciiStrToLower(id);
    if (absl::StrContains(lower, "perday") || absl::StrContains(lower, "per_day")) {
      facts |= kFactPerDay;
    }
  }
  if (answer.html) facts |= kFactHtml;
  if (!answer.error.param.empty() && !IsItemField(answer.error.param)) facts |= kFactConfigParam;
  if (answer.headers != nullptr) {
    if (const std::string* retry = http::FindHeader(*answer.headers, "x-should-retry")) {
      if (absl::EqualsIgnoreCase(*retry, "true")) facts |= kFactDoRetry;
      if (absl::EqualsIgnoreCase(*retry, "false")) facts |= kFactNoRetry;
    }
  }
  return facts;
}

// The reset of a dimension that the headers call used up.
std::optional<absl::Duration> ResetOfUsedUp(const RateHeaders& rate) {
  std::optional<absl::Duration> longest;
  for (const RateHeaders::Limit* limit :
       {&rate.requests, &rate.tokens, &rate.input_tokens, &rate.output_tokens}) {
    if (limit->remaining && *limit->remaining == 0 && limit->reset) {
      longest = std::max(longest.value_or(absl::ZeroDuration()), *limit->reset);
    }
  }
  return longest;
}

// The server's hint, the most exact source first: headers for this purpose, a structured field, the
// sentence in the message ("try again in 1.146s"), the reset of a used-up limit. The reset comes
// last because OpenAI's and Anthropic's say when the limit is *full* again (quota.md 0, 1.2).
std::optional<absl::Duration> WaitOf(const ErrorAnswer& answer) {
  const http::Headers none;
  const http::Headers& headers = answer.headers != nullptr ? *answer.headers : none;
  const absl::Time now = ServerTime(headers, answer.local_time);
  if (auto wait = ParseRetryAfter(headers, answer.local_time)) return wait;
  if (auto wait = ParseRetryAfter(answer.error.headers, now)) return wait;
  if (answer.error.retry_delay) return answer.error.retry_delay;
  if (auto wait = WaitInText(answer.error.message)) return wait;
  if (auto wait = ResetOfUsedUp(ParseRateHeaders(answer.error.headers, now))) return wait;
  return ResetOfUsedUp(ParseRateHeaders(headers, answer.local_time));
}

std::optional<Dimension> UsedUpDimension(const ErrorAnswer& answer) {
  if (answer.headers == nullptr) return std::nullopt;
  const RateHeaders rate = ParseRateHeaders(*answer.headers, answer.local_time);
  const std::pair<const RateHeaders::Limit*, Dimension> limits[] = {
      {&rate.input_tokens, Dimension::kInputTokens},
      {&rate.output_tokens, Dimension::kOutputTokens},
      {&rate.requests, Dimension::kRequests},
      {&rate.tokens, Dimension::kTokens},
  };
  for (const auto& [limit, dimension] : limits) {
    if (limit->remaining && *limit->remaining == 0) return dimension;
  }
  return std::nullopt;
}

int EffectiveStatus(const ErrorAnswer& answer) {
  if (answer.http_status >= 300) return answer.http_status;
  // In a 200, the body speaks: a number first (case B9), then what its words stand for (case A10).
  if (answer.error.status != 0) return answer.error.status;
  return StatusOfWords(answer.error);
}

bool Fits(const Rule& rule, const ErrorAnswer& answer, int status, uint32_t facts,
          absl::string_view lower_message) {
  if (rule.vendor != Vendor::kAny && rule.vendor != answer.vendor) return false;
  if ((rule.facts & facts) != rule.facts) return false;
  if (!rule.statuses.empty() &&
      !AnyOf(rule.statuses, [&](absl::string_view p) { return StatusFits(p, status); })) {
    return false;
  }
  if (!rule.words.empty() &&
      !AnyOf(rule.words, [&](absl::string_view p) { return WordFits(p, answer.error); })) {
    return false;
  }
  return rule.text.empty() ||
         AnyOf(rule.text, [&](absl::string_view p) { return TextFits(p, lower_message); });
}

Settlement SettlementOf(ErrorClass error_class, Vendor vendor) {
  switch (error_class) {
    case ErrorClass::kRateLimited:
    case ErrorClass::kRamp:
    case ErrorClass::kOverloaded:
    case ErrorClass::kAuth:
    case ErrorClass::kNoMoney:
      return Settlement::kRejected;
    case ErrorClass::kBadRequest:
    case ErrorClass::kConfig:
    case ErrorClass::kSchema:
    case ErrorClass::kNeverFits:
    case ErrorClass::kContentFilter:
      // Azure: rejected 400s "might still count" (quota.md 1.1, 3.2).
      return vendor == Vendor::kAzure ? Settlement::kUnknown : Settlement::kRejected;
    default:
      return Settlement::kUnknown;
  }
}

// A gateway's timeout says nothing about the server behind it, which may have done the work.
bool MayBeBilled(int status) {
  return status == 408 || status == 502 || status == 504 || (status >= 520 && status <= 524);
}

}  // namespace

Vendor VendorOfHost(absl::string_view host) {
  const auto under = [host](absl::string_view domain) {
    return host == domain || absl::EndsWith(host, absl::StrCat(".", domain));
  };
  if (under("aliyuncs.com")) return Vendor::kDashScope;
  if (under("azure.com")) return Vendor::kAzure;
  return Vendor::kAny;
}

bool RequestedExceedsLimit(absl::string_view message) {
  const std::optional<int64_t> requested = NumberAfter(message, "Requested");
  const std::optional<int64_t> limit = NumberAfter(message, "Limit");
  return requested && limit && *requested > *limit;
}

std::optional<absl::Duration> WaitInText(absl::string_view message) {
  for (absl::string_view phrase : {"try again in ", "retry in ", "retry after ", "wait "}) {
    const size_t found = absl::AsciiStrToLower(message).find(std::string(phrase));
    if (found == std::string::npos) continue;
    absl::string_view rest = message.substr(found + phrase.size());
    const absl::string_view number =
        rest.substr(0, std::min(rest.find_first_not_of("0123456789.hmsu"), rest.size()));
    absl::string_view text = number;
    while (absl::EndsWith(text, ".")) text.remove_suffix(1);  // the end of the sentence
    if (auto wait = ParseUnitDuration(text)) return wait;
    rest.remove_prefix(number.size());
    double value = 0;
    if (absl::StartsWith(rest, " second") && absl::SimpleAtod(number, &value) && value >= 0) {
      return std::min(absl::Seconds(value), kLongestReset);
    }
    if (absl::StartsWith(rest, " minute") && absl::SimpleAtod(number, &value) && value >= 0) {
      return std::min(absl::Minutes(value), kLongestReset);
    }
  }
  return std::nullopt;
}

std::optional<quota::Penalty::Kind> PenaltyOf(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::kRateLimited:
      return quota::Penalty::Kind::kRate;
    case ErrorClass::kRamp:
      return quota::Penalty::Kind::kRamp;
    case ErrorClass::kOverloaded:
      return quota::Penalty::Kind::kCapacity;
    case ErrorClass::kAuth:
    case ErrorClass::kNoMoney:
      return quota::Penalty::Kind::kStop;
    default:
      return std::nullopt;
  }
}

Verdict Classify(const ErrorAnswer& answer) {
  Verdict verdict;
  verdict.status = EffectiveStatus(answer);
  verdict.retry_after = WaitOf(answer);
  const uint32_t facts = FactsOf(answer, verdict.retry_after);
  const std::string lower_message = absl::AsciiStrToLower(answer.error.message);
  for (const Rule& rule : AllRules()) {
    if (!Fits(rule, answer, verdict.status, facts, lower_message)) continue;
    verdict.rule = rule.name;
    verdict.error_class = rule.error_class;
    verdict.dimension = rule.dimension;
    break;
  }
  if (verdict.error_class == ErrorClass::kRateLimited && !verdict.dimension) {
    verdict.dimension = UsedUpDimension(answer);
  }
  verdict.penalty = PenaltyOf(verdict.error_class);
  verdict.settlement = SettlementOf(verdict.error_class, answer.vendor);
  verdict.possibly_billed =
      verdict.settlement == Settlement::kUnknown && MayBeBilled(verdict.status);
  return verdict;
}

}  // namespace headrace::provider
