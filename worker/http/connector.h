// Opens connections to one endpoint: name, TCP by happy eyeballs (RFC 8305), TLS.
#ifndef HEADRACE_WORKER_HTTP_CONNECTOR_H_
#define HEADRACE_WORKER_HTTP_CONNECTOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "worker/http/resolver.h"
#include "worker/http/tls.h"
#include "worker/http/transport.h"
#include "worker/http/url.h"

namespace headrace::http {

class Connector {
 public:
  // *reactor must outlive the connector; the connector must outlive its Connect() calls and, with
  // TLS, the transports that came from it. `ca_file` as in TlsContext::Make, whose errors are
  // passed on.
  static absl::StatusOr<std::unique_ptr<Connector>> Make(Reactor* reactor, Url endpoint,
                                                         absl::string_view ca_file);

  // A connected transport, with its ALPN when the endpoint is https ("h2" is preferred to
  // "http/1.1"). DeadlineExceeded after `timeout`, Cancelled when stopped, else Unavailable or
  // NotFound with the host and the reason of the last address tried.
  Task<absl::StatusOr<Transport>> Connect(absl::Duration timeout, StopToken stop);

  const Url& endpoint() const { return endpoint_; }

 private:
  Connector(Reactor* reactor, Url endpoint, std::unique_ptr<TlsContext> tls);

  Task<absl::StatusOr<Transport>> ConnectAll(StopToken stop);
  Task<absl::StatusOr<UniqueFd>> ConnectTcp(StopToken stop);
  Task<absl::StatusOr<SslPtr>> ShakeHands(int fd, StopToken stop);

  Reactor* const reactor_;
  const Url endpoint_;
  const std::unique_ptr<TlsContext> tls_;  // null for http
  Resolver resolver_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_CONNECTOR_H_
