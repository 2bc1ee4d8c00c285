// The quota of one account (one key): several meters, admitted all or nothing, with the headers and
// rejections of each dialect. Pure: times come from outside.
#ifndef HEADRACE_SIMULATOR_ACCOUNT_H_
#define HEADRACE_SIMULATOR_ACCOUNT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "simulator/options.h"
#include "simulator/quota_mechanics.h"

namespace headrace::simulator {

// Names in lower case.
using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct TokenUse {
  int64_t input = 0;
  int64_t output = 0;
};

// What an admitted request holds until it is settled.
struct Charge {
  bool open = false;
  MonoTime at;
  std::array<int64_t, kLimitKindCount> units{};
  int64_t total_tokens = 0;  // charged at admission, whatever dimensions there are
};

struct Rejection {
  LimitKind kind = LimitKind::kRequests;
  Mechanics mechanics = Mechanics::kBucket;
  bool never = false;
  int64_t limit = 0;
  int64_t used = 0;
  int64_t requested = 0;
  absl::Duration retry_after;
};

class Account {
 public:
  Account(const std::vector<LimitSpec>& limits, Charging charging, bool count_failed);

  // Admits over all dimensions or rejects and charges nothing (but the request itself, when failed
  // requests count). `max_output` is the request's max_tokens, or what the provider assumes.
  bool Admit(MonoTime now, int64_t estimated_input, int64_t max_output, Charge* charge,
             Rejection* rejection);
  // Ends a charge with what was really used. A request that `failed` before any work gives back
  // its request too, unless failed requests count.
  void Settle(MonoTime now, TokenUse actual, bool failed, Charge* charge);

  // Rate-limit headers of the dialect; nothing when there are no limits.
  void AppendHeaders(MonoTime now, absl::Time wall, bool anthropic, HeaderList* headers);

  bool limited() const { return !meters_.empty(); }

 private:
  int64_t Cost(LimitKind kind, int64_t input, int64_t max_output) const;

  std::vector<std::unique_ptr<Meter>> meters_;
  const Charging charging_;
  const bool count_failed_;
};

// "6ms", "1.5s", "1m30s", "23h18m29.144s": the durations of OpenAI's reset headers, milliseconds
// truncated.
std::string FormatGoDuration(absl::Duration duration);

// Status, hint headers and body of a rejection.
struct RejectionText {
  int status = 429;
  HeaderList headers;
  std::string body;
};
RejectionText RenderRejection(const Rejection& rejection, bool anthropic, absl::string_view model);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_ACCOUNT_H_
