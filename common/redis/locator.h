// Answers where the server is at this moment: a fixed address, or the master that Sentinels name.
#ifndef HEADRACE_COMMON_REDIS_LOCATOR_H_
#define HEADRACE_COMMON_REDIS_LOCATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/net/connector.h"
#include "common/redis/url.h"

namespace headrace::redis {

struct Place {
  // Owned by the locator, which may move on, and by the connections that it made.
  std::shared_ptr<net::Connector> connector;
  std::string name;  // "host:port" or the path of a socket, for people
};

class Locator {
 public:
  virtual ~Locator() = default;
  // Where to connect now. Unavailable or Cancelled, or FailedPrecondition when a person must change
  // something. One call at a time.
  virtual Task<absl::StatusOr<Place>> Locate(StopToken stop) = 0;
  // The place last named did not serve: ask somebody else next time, where there is a choice.
  virtual void Distrust() {}
};

// A connector to `host`, or to the Unix socket `unix_path` when that is not empty, with the TLS of
// `url`. Names are looked up anew for every connection: after a failover a name may move.
// InvalidArgument when certificates cannot be read.
absl::StatusOr<Place> MakePlace(Reactor* reactor, const Url& url, const HostPort& host,
                                const std::string& unix_path = "");

class FixedLocator final : public Locator {
 public:
  explicit FixedLocator(Place place) : place_(std::move(place)) {}
  Task<absl::StatusOr<Place>> Locate(StopToken stop) override { co_return place_; }

 private:
  const Place place_;
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_LOCATOR_H_
