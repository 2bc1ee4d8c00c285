// Opens connections to one endpoint: name, TCP by happy eyeballs (RFC 8305) or a Unix socket, TLS.
#ifndef HEADRACE_COMMON_NET_CONNECTOR_H_
#define HEADRACE_COMMON_NET_CONNECTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/net/resolver.h"
#include "common/net/tls.h"
#include "common/net/transport.h"

namespace headrace::net {

struct ConnectorOptions {
  std::string host;  // a name or a literal address, IPv6 without brackets; also what TLS checks
  uint16_t port = 0;
  std::string unix_path;          // not empty: a Unix socket instead of host and port
  std::optional<TlsOptions> tls;  // TCP only
  std::vector<std::string> alpn;  // in order of preference, e.g. {"h2", "http/1.1"}
  absl::Duration name_cache_time = absl::Seconds(30);  // zero: every connection asks anew
  std::string name;                                    // of the endpoint, in errors
};

class Connector {
 public:
  // *reactor must outlive the connector; the connector must outlive its Connect() calls and, with
  // TLS, the transports that came from it. Errors are those of TlsContext::Make, and
  // InvalidArgument for a path that is too long for a Unix socket.
  static absl::StatusOr<std::unique_ptr<Connector>> Make(Reactor* reactor,
                                                         ConnectorOptions options);

  // A connected transport, its TLS handshake done. DeadlineExceeded after `timeout`, Cancelled when
  // stopped, else Unavailable or NotFound with the host and the reason of the last address tried.
  Task<absl::StatusOr<Transport>> Connect(absl::Duration timeout, StopToken stop);

 private:
  Connector(Reactor* reactor, ConnectorOptions options, std::unique_ptr<TlsContext> tls);

  Task<absl::StatusOr<Transport>> ConnectAll(StopToken stop);
  absl::StatusOr<UniqueFd> ConnectUnix() const;
  Task<absl::StatusOr<UniqueFd>> ConnectTcp(StopToken stop);
  Task<absl::StatusOr<SslPtr>> ShakeHands(int fd, StopToken stop);

  Reactor* const reactor_;
  const ConnectorOptions options_;
  const std::unique_ptr<TlsContext> tls_;  // null without TLS
  Resolver resolver_;
};

}  // namespace headrace::net

#endif  // HEADRACE_COMMON_NET_CONNECTOR_H_
