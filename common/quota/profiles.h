// How each provider meters and charges: data, with where each number is from. A job file names a
// profile or leaves it to the endpoint ("auto"), and may override any of it.
#ifndef HEADRACE_COMMON_QUOTA_PROFILES_H_
#define HEADRACE_COMMON_QUOTA_PROFILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/quota/costs.h"
#include "common/quota/quota.h"

namespace headrace::quota {

// What a provider counts a limit per minute over.
enum class CountedOver : uint8_t {
  kContinuous,  // refills all the time
  kMinute,      // starts anew each minute
  kTenSeconds,  // a sixth of the limit each 10 s
  kSecond,      // a sixtieth of it each second
};
absl::string_view CountedOverName(CountedOver over);  // "continuous", "minute", "10s", "1s"
std::optional<CountedOver> ParseCountedOver(absl::string_view name);

struct Profile {
  absl::string_view name;
  absl::string_view hosts;  // of endpoints that "auto" takes for it, '|' between; a leading '.' is
                            // any host that ends so
  CountedOver requests = CountedOver::kContinuous;
  CountedOver tokens = CountedOver::kContinuous;
  double utilisation = 0.995;
  // Tokens per minute that new traffic may start with, and how much it may grow a minute; 0:
  // freely.
  int64_t ramp_start = 0;
  double ramp_growth = 0.027;
  ChargeRules charge;
  absl::string_view source;  // of all this, with its date
};

absl::Span<const Profile> AllProfiles();
// nullptr for an unknown name.
const Profile* FindProfile(absl::string_view name);
// The profile of an endpoint: by its host, else by the dialect `provider`. Never nullptr: an
// unknown host is "generic".
const Profile* ProfileOfEndpoint(absl::string_view provider, absl::string_view endpoint);

// A pool as a user describes it. Limits are per minute, 0 means none.
struct PoolDescription {
  std::string name{};
  std::string profile{};  // of AllProfiles(); empty: "generic"
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;
  int64_t input_tokens_per_minute = 0;
  int64_t output_tokens_per_minute = 0;
  int64_t requests_per_day = 0;
  int64_t tokens_per_day = 0;
  int64_t max_in_flight = 0;
  bool auto_in_flight = false;  // found by trying, up to max_in_flight
  // Empty, zero or absent: as the profile says.
  std::string window{};           // of tokens, as CountedOverName()
  std::string requests_window{};  // of requests
  std::optional<absl::Duration> guard{};
  std::optional<absl::Duration> burst{};
  double utilisation = 0;
  std::optional<int64_t> ramp_start{};
  double ramp_growth = 0;
};

// InvalidArgument for an unknown profile or window, or what ValidatePool() refuses.
absl::StatusOr<PoolSpec> MakePool(const PoolDescription& description);

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_PROFILES_H_
