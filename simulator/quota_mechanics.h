// How providers meter one dimension of a quota, as pure state: no clock, no I/O. This is what the
// provider enforces, written independently of headrace's own model of it (common/quota), so that
// each tests the other.
#ifndef HEADRACE_SIMULATOR_QUOTA_MECHANICS_H_
#define HEADRACE_SIMULATOR_QUOTA_MECHANICS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/time.h"

namespace headrace::simulator {

enum class LimitKind : uint8_t { kRequests, kTokens, kInputTokens, kOutputTokens, kInFlight };
inline constexpr int kLimitKindCount = 5;
// "requests", "tokens", "input-tokens", "output-tokens", "in-flight": as in rate-limit headers.
absl::string_view LimitKindName(LimitKind kind);

enum class Mechanics : uint8_t {
  kBucket,   // continuous: drains at limit/period, holds `capacity` (OpenAI, Anthropic, Groq)
  kWindow,   // a counter that starts anew every `period`, at `offset` (Azure TPM, Mistral); with a
             // period of 1 s or 10 s the cells of Azure RPM and DashScope
  kSliding,  // at most `limit` in any `period` (a strict log)
  kGauge,    // at most `limit` at once (DeepSeek)
  kRamp,     // 1 s cells whose size may grow only by `growth` per minute (OpenAI slow_down)
};

struct LimitSpec {
  LimitKind kind = LimitKind::kRequests;
  Mechanics mechanics = Mechanics::kBucket;
  int64_t limit = 0;                         // units per minute, or slots for kGauge; > 0
  absl::Duration period = absl::Minutes(1);  // kWindow and kSliding: the width of the window
  int64_t capacity = 0;                      // kBucket: most units at once; 0: one minute's quota
  absl::Duration offset{};                   // kWindow: where windows start, in [0, period)
  double start = 0.1;                        // kRamp: share of the limit that is free at first
  double growth = 0.5;                       // kRamp: growth per minute while it is used
};

// InvalidArgument that names the field.
absl::Status ValidateLimit(const LimitSpec& spec);

// Whether something fits now, and if not, when.
struct Fit {
  bool fits = true;
  bool never = false;            // larger than the limit itself: no wait helps
  absl::Duration retry_after{};  // how long until it would fit if nobody else came
};

// What rate-limit headers say.
struct LimitState {
  int64_t limit = 0;       // per minute, as configured
  int64_t remaining = 0;   // at least 0
  absl::Duration reset{};  // until everything is free again
  int64_t used = 0;
};

// The meter of one dimension. Times must not go back.
class Meter {
 public:
  virtual ~Meter() = default;

  // Whether `cost` units would be admitted at `now`. A cost of 0 asks whether anything is left.
  virtual Fit Check(MonoTime now, int64_t cost) = 0;
  // Charges `cost`, which may be more than what is free (debt) or negative (refund). `charged_at`
  // is when the charge that is corrected was made: a window that has ended takes no correction.
  virtual void Charge(MonoTime now, MonoTime charged_at, int64_t cost) = 0;
  virtual LimitState State(MonoTime now) = 0;

  const LimitSpec& spec() const { return spec_; }

 protected:
  explicit Meter(const LimitSpec& spec) : spec_(spec) {}
  const LimitSpec spec_;
};

// `spec` must be valid.
std::unique_ptr<Meter> MakeMeter(const LimitSpec& spec);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_QUOTA_MECHANICS_H_
