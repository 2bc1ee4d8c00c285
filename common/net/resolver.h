// Names to addresses, off the reactor's thread.
#ifndef HEADRACE_COMMON_NET_RESOLVER_H_
#define HEADRACE_COMMON_NET_RESOLVER_H_

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/time.h"

namespace headrace::net {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family() const { return storage.ss_family; }
};

// Runs getaddrinfo(3) on one thread of its own, started by the first name that is no literal
// address. Answers are kept for `cache_time`, so that a burst of connections asks once.
class Resolver {
 public:
  explicit Resolver(Reactor* reactor, absl::Duration cache_time = absl::Seconds(30));
  // Does not wait for a lookup that hangs in the system's resolver: its thread ends by itself.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // At least one address, in the system's order of preference. NotFound when the name does not
  // exist, Unavailable when it cannot be looked up now or too many lookups wait (kMaxWaiting),
  // Cancelled when stopped.
  Task<absl::StatusOr<std::vector<Address>>> Resolve(std::string host, uint16_t port,
                                                     StopToken stop);

 private:
  struct Shared;  // owned by the resolver and by its thread, which may outlive it
  struct Lookup;  // owned by those who wait for it, and by the thread until it is answered
  struct Cached {
    std::vector<Address> addresses;
    MonoTime until;
  };

  // False when too many wait.
  bool Enqueue(std::shared_ptr<Lookup> lookup);

  Reactor* const reactor_;
  const absl::Duration cache_time_;
  std::shared_ptr<Shared> shared_;  // null until the first lookup
  absl::flat_hash_map<std::string, Cached> cache_;
  absl::flat_hash_map<std::string, std::weak_ptr<Lookup>> pending_;
};

}  // namespace headrace::net

#endif  // HEADRACE_COMMON_NET_RESOLVER_H_
