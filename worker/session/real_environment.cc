#include "worker/session/real_environment.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/quota/memory_store.h"
#include "worker/http/client.h"
#include "worker/http/url.h"
#include "worker/session/pool_description.h"
#include "worker/session/shared_pools.h"

namespace headrace {
namespace {

// A key file holds one key; anything longer is some other file. Chosen, not measured.
constexpr size_t kMaxKeyFileBytes = 64 << 10;

absl::StatusOr<Secret> ReadKeyFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(errno, absl::StrCat("key file ", path));
  std::string text;
  text.resize(kMaxKeyFileBytes + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxKeyFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("key file ", path, " is larger than a key"));
  }
  return Secret(std::move(text));
}

}  // namespace

absl::StatusOr<Secret> RealEnvironment::ReadKey(const v1::ApiKeySource& source) {
  if (source.has_file()) return ReadKeyFile(source.file());
  if (!source.has_env()) return Secret();
  const char* value = std::getenv(source.env().c_str());
  if (value == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the environment variable ", source.env(), " with the API key is not set"));
  }
  return Secret(value);
}

absl::StatusOr<std::unique_ptr<http::Engine>> RealEnvironment::MakeClient(
    const v1::ModelSpec& model) {
  http::ClientOptions options;
  HR_ASSIGN_OR_RETURN(options.endpoint, http::ParseUrl(model.endpoint()));
  options.ca_file = model.ca_file();
  return http::MakeClient(reactor_, std::move(options));
}

absl::StatusOr<std::unique_ptr<quota::PoolStore>> RealEnvironment::MakePools(
    const v1::JobSpec& job) {
  std::vector<quota::PoolSpec> specs;
  for (const v1::PoolSpec& pool : job.pools()) {
    HR_ASSIGN_OR_RETURN(quota::PoolSpec spec, ToPoolSpec(pool));
    specs.push_back(std::move(spec));
  }
  if (!redis_.empty()) return MakePoolsInRedis(job, std::move(specs));
  return std::make_unique<quota::MemoryPoolStore>(reactor_, specs);
}

absl::StatusOr<std::unique_ptr<quota::PoolStore>> RealEnvironment::MakePoolsInRedis(
    const v1::JobSpec& job, std::vector<quota::PoolSpec> specs) {
  std::vector<std::vector<PoolUser>> users(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    specs[i].reservation_timeout = ReservationTimeout(job, specs[i].name);
    for (const v1::ModelSpec& model : job.models()) {
      if (model.pool() != specs[i].name) continue;
      absl::StatusOr<Secret> key = ReadKey(model.api_key());
      // A model without its key makes no calls, and says so where it is set up.
      if (key.ok()) users[i].push_back(PoolUser{model.endpoint(), *std::move(key)});
    }
  }
  return MakeSharedPools(reactor_, redis_, worker_, std::move(specs), users);
}

std::vector<quota::PoolSpec> RealEnvironment::PoolsOfSharer(const v1::JobSpec& job,
                                                            int64_t sharers) {
  std::vector<quota::PoolSpec> specs;
  if (!redis_.empty()) return specs;
  for (const v1::PoolSpec& pool : job.pools()) {
    absl::StatusOr<quota::PoolSpec> made = ToPoolSpec(pool);
    if (!made.ok()) continue;  // MakePools() has said so
    quota::PoolSpec spec = *std::move(made);
    // Down to one call at a time: less would be a worker that never works.
    for (quota::DimensionSpec& d : spec.dimensions) {
      d.whole_limit = d.limit;
      d.limit = std::max<int64_t>(d.limit / sharers, 1);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace headrace
