#include "simulator/account.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace headrace::simulator {
namespace {

size_t Index(LimitKind kind) { return static_cast<size_t>(kind); }

absl::string_view OpenAiUnit(LimitKind kind) {
  switch (kind) {
    case LimitKind::kRequests:
      return "requests per min (RPM)";
    case LimitKind::kTokens:
      return "tokens per min (TPM)";
    case LimitKind::kInputTokens:
      return "input tokens per min (ITPM)";
    case LimitKind::kOutputTokens:
      return "output tokens per min (OTPM)";
    case LimitKind::kInFlight:
      return "concurrent requests";
  }
  return "";
}

std::string WholeSeconds(absl::Duration duration) {
  return absl::StrCat(
      std::max<int64_t>(absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))), 1));
}

}  // namespace

Account::Account(const std::vector<LimitSpec>& limits, Charging charging, bool count_failed)
    : charging_(charging), count_failed_(count_failed) {
  for (const LimitSpec& limit : limits) meters_.push_back(MakeMeter(limit));
}

int64_t Account::Cost(LimitKind kind, int64_t input, int64_t max_output) const {
  switch (kind) {
    case LimitKind::kRequests:
    case LimitKind::kInFlight:
      return 1;
    case LimitKind::kTokens:
      if (charging_ == Charging::kActual) return 0;
      return charging_ == Charging::kReserveMax ? std::max(input, max_output) : input + max_output;
    case LimitKind::kInputTokens:
      return charging_ == Charging::kActual ? 0 : input;
    case LimitKind::kOutputTokens:
      return charging_ == Charging::kReserveMax ? max_output : 0;
  }
  return 0;
}

bool Account::Admit(MonoTime now, int64_t estimated_input, int64_t max_output, Charge* charge,
                    Rejection* rejection) {
  const Meter* refused = nullptr;
  for (const auto& meter : meters_) {
    const int64_t cost = Cost(meter->spec().kind, estimated_input, max_output);
    const Fit fit = meter->Check(now, cost);
    if (fit.fits) continue;
    // The longest wait is what helps; a request that never fits is told so.
    if (refused != nullptr && (rejection->never || rejection->retry_after >= fit.retry_after)) {
      continue;
    }
    refused = meter.get();
    *rejection = {.kind = meter->spec().kind,
                  .mechanics = meter->spec().mechanics,
                  .never = fit.never,
                  .limit = meter->spec().limit,
                  .used = meter->State(now).used,
                  .requested = cost,
                  .retry_after = fit.retry_after};
  }
  if (refused != nullptr) {
    if (!count_failed_) return false;
    for (const auto& meter : meters_) {
      const bool counts = meter->spec().kind == LimitKind::kRequests && meter.get() != refused;
      if (counts) meter->Charge(now, now, 1);
    }
    return false;
  }
  charge->open = true;
  charge->at = now;
  charge->total_tokens = Cost(LimitKind::kTokens, estimated_input, max_output);
  for (const auto& meter : meters_) {
    const LimitKind kind = meter->spec().kind;
    charge->units[Index(kind)] = Cost(kind, estimated_input, max_output);
    meter->Charge(now, now, charge->units[Index(kind)]);
  }
  return true;
}

void Account::Settle(MonoTime now, TokenUse actual, bool failed, Charge* charge) {
  if (!charge->open) return;
  charge->open = false;
  for (const auto& meter : meters_) {
    const LimitKind kind = meter->spec().kind;
    const int64_t charged = charge->units[Index(kind)];
    int64_t final_units = charged;
    if (kind == LimitKind::kInFlight) {
      final_units = 0;
    } else if (kind == LimitKind::kRequests) {
      final_units = failed && !count_failed_ ? 0 : 1;
    } else if (charging_ != Charging::kReserveMax) {
      final_units = kind == LimitKind::kTokens        ? actual.input + actual.output
                    : kind == LimitKind::kInputTokens ? actual.input
                                                      : actual.output;
    }
    // What is first charged at the end belongs to the end; a correction to where it was charged.
    const MonoTime where = charged == 0 ? now : charge->at;
    if (final_units != charged) meter->Charge(now, where, final_units - charged);
  }
}

void Account::AppendHeaders(MonoTime now, absl::Time wall, bool anthropic, HeaderList* headers) {
  for (const auto& meter : meters_) {
    const LimitKind kind = meter->spec().kind;
    if (kind == LimitKind::kInFlight) continue;
    const LimitState state = meter->State(now);
    const absl::string_view name = LimitKindName(kind);
    if (anthropic) {
      // Token counts are rounded to the nearest thousand, as documented.
      const int64_t remaining =
          kind == LimitKind::kRequests ? state.remaining : (state.remaining + 500) / 1000 * 1000;
      const std::string prefix = absl::StrCat("anthropic-ratelimit-", name);
      headers->emplace_back(prefix + "-limit", absl::StrCat(state.limit));
      headers->emplace_back(prefix + "-remaining", absl::StrCat(remaining));
      headers->emplace_back(prefix + "-reset",
                            absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                                             absl::FromUnixSeconds(absl::ToUnixSeconds(
                                                 wall + state.reset + absl::Milliseconds(999))),
                                             absl::UTCTimeZone()));
    } else {
      headers->emplace_back(absl::StrCat("x-ratelimit-limit-", name), absl::StrCat(state.limit));
      headers->emplace_back(absl::StrCat("x-ratelimit-remaining-", name),
                            absl::StrCat(state.remaining));
      headers->emplace_back(absl::StrCat("x-ratelimit-reset-", name),
                            FormatGoDuration(state.reset));
    }
  }
}

std::string FormatGoDuration(absl::Duration duration) {
  int64_t ms = std::max<int64_t>(absl::ToInt64Milliseconds(duration), 0);
  if (ms < 1000) return absl::StrCat(ms, "ms");
  const int64_t hours = ms / 3'600'000;
  const int64_t minutes = ms / 60'000 % 60;
  ms %= 60'000;
  std::string out;
  if (hours > 0) absl::StrAppend(&out, hours, "h");
  if (hours > 0 || minutes > 0) absl::StrAppend(&out, minutes, "m");
  absl::StrAppend(&out, ms / 1000);
  if (ms % 1000 != 0) {
    std::string fraction = absl::StrFormat(".%03d", ms % 1000);
    while (fraction.back() == '0') fraction.pop_back();
    out += fraction;
  }
  out += 's';
  return out;
}

RejectionText RenderRejection(const Rejection& r, bool anthropic, absl::string_view model) {
  RejectionText text;
  if (anthropic) {
    if (!r.never) text.headers.emplace_back("retry-after", WholeSeconds(r.retry_after));
    const std::string unit =
        absl::StrCat(r.limit, " ",
                     r.kind == LimitKind::kInFlight
                         ? std::string("concurrent requests")
                         : absl::StrCat(absl::StrReplaceAll(LimitKindName(r.kind), {{"-", " "}}),
                                        " per minute"));
    const absl::string_view why =
        r.mechanics == Mechanics::kRamp
            ? "This request would exceed your organization's usage acceleration limit of "
            : "This request would exceed your organization's rate limit of ";
    text.body =
        absl::StrCat("{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"",
                     why, unit, " (model: ", model, ")\"},\"request_id\":\"req_simulator\"}");
    return text;
  }
  std::string message;
  if (r.never) {
    message = absl::StrCat("Request too large for ", model, " in organization org-simulator on ",
                           OpenAiUnit(r.kind), ": Limit ", r.limit, ", Requested ", r.requested,
                           ". The input or output tokens must be reduced in order to run "
                           "successfully.");
  } else if (r.mechanics == Mechanics::kRamp) {
    message =
        "Slow down: your request rate grew too fast. Please reduce it and raise it gradually.";
  } else {
    message =
        absl::StrCat("Rate limit reached for ", model, " in organization org-simulator on ",
                     OpenAiUnit(r.kind), ": Limit ", r.limit, ", Used ", r.used, ", Requested ",
                     r.requested, ". Please try again in ", FormatGoDuration(r.retry_after), ".");
  }
  if (!r.never) {
    text.headers.emplace_back("retry-after", WholeSeconds(r.retry_after));
    text.headers.emplace_back(
        "retry-after-ms",
        absl::StrCat(absl::ToInt64Milliseconds(absl::Ceil(r.retry_after, absl::Milliseconds(1)))));
  }
  const bool ramp = r.mechanics == Mechanics::kRamp && !r.never;
  text.body = absl::StrCat("{\"error\":{\"message\":\"", message, "\",\"type\":\"",
                           r.kind == LimitKind::kRequests ? "requests" : "tokens",
                           "\",\"param\":null,\"code\":\"",
                           ramp ? "slow_down" : "rate_limit_exceeded", "\"}}");
  return text;
}

}  // namespace headrace::simulator
