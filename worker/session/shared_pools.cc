#include "worker/session/shared_pools.h"

#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/quota/redis_store.h"
#include "common/redis/client.h"
#include "worker/http/url.h"

namespace headrace {
namespace {

// Of a digest, in the names of keys: 96 bits, so that no two accounts ever meet.
constexpr size_t kAccountDigits = 24;
// After the total timeout of a call: connecting, waiting for the send time, settling.
constexpr absl::Duration kCallGrace = absl::Minutes(1);

std::string Sha256(absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int done = EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  HR_CHECK(done == 1) << "OpenSSL has no SHA-256";
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

// The paths of one host are one account: deployments and versions differ in them.
std::string Origin(const std::string& endpoint) {
  const absl::StatusOr<http::Url> url = http::ParseUrl(endpoint);
  if (!url.ok()) return absl::AsciiStrToLower(endpoint);
  return absl::StrCat(url->tls ? "https://" : "http://", url->authority());
}

}  // namespace

std::string AccountOf(const std::vector<PoolUser>& users) {
  std::vector<std::string> parts;
  for (const PoolUser& user : users) {
    parts.push_back(Sha256(absl::StrCat("headrace account\n", Origin(user.endpoint), "\n",
                                        Sha256(user.key.Reveal()))));
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return Sha256(absl::StrJoin(parts, "\n")).substr(0, kAccountDigits);
}

absl::Duration ReservationTimeout(const v1::JobSpec& job, absl::string_view pool) {
  absl::Duration longest = absl::ZeroDuration();
  for (const v1::ModelSpec& model : job.models()) {
    if (model.pool() != pool) continue;
    // A call without an end may take as long as the default says.
    if (model.total_timeout_ms() == 0) return quota::PoolSpec().reservation_timeout;
    longest = std::max(longest, absl::Milliseconds(model.total_timeout_ms()));
  }
  return longest + kCallGrace;
}

absl::StatusOr<std::unique_ptr<quota::PoolStore>> MakeSharedPools(
    Reactor* reactor, absl::string_view redis_url, absl::string_view worker,
    std::vector<quota::PoolSpec> specs, const std::vector<std::vector<PoolUser>>& users) {
  HR_ASSIGN_OR_RETURN(redis::Url url, redis::ParseUrl(redis_url));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<redis::Client> client,
                      redis::Client::Make(reactor, std::move(url), redis::ClientOptions()));
  std::vector<quota::SharedPool> pools;
  for (size_t i = 0; i < specs.size(); ++i) {
    pools.push_back(quota::SharedPool{std::move(specs[i]), AccountOf(users[i])});
  }
  quota::RedisStoreOptions options;
  options.seed = RandomSeed();
  options.worker = absl::StrCat(worker, "/", absl::Hex(RandomSeed(), absl::kZeroPad16));
  return std::make_unique<quota::RedisPoolStore>(
      reactor, std::make_unique<quota::ClientPoolServer>(std::move(client)), pools,
      std::move(options));
}

}  // namespace headrace
