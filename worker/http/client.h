// The HTTP client of one endpoint: the first connection's ALPN decides which engine serves it.
#ifndef HEADRACE_WORKER_HTTP_CLIENT_H_
#define HEADRACE_WORKER_HTTP_CLIENT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "worker/http/http.h"
#include "worker/http/url.h"

namespace headrace::http {

enum class Protocol {
  kAuto,    // https: by ALPN, h2 preferred; http: HTTP/1.1; HTTP/1.1 too whenever a proxy is set
  kHttp11,  // libcurl
  kHttp2,   // nghttp2; over http this is h2c with prior knowledge
};

struct ClientOptions {
  Url endpoint;  // path and query are not used
  Protocol protocol = Protocol::kAuto;
  std::string ca_file;               // PEM bundle; empty: the system's
  int max_connections = 128;         // HTTP/2 connections; HTTP/1.1 opens one per call in flight
  int streams_per_connection = 100;  // at most; the peer's SETTINGS may lower it
  absl::Duration max_read_tick =
      absl::Milliseconds(5);                        // reads are batched by up to this under load
  absl::Duration idle_timeout = absl::Seconds(50);  // idle connections are closed after this
  int max_requests_per_connection = 9000;           // then it is replaced (ALB ends at 10,000)
  absl::Duration max_connection_age = absl::Minutes(30);
  bool use_environment_proxies = true;  // https_proxy, http_proxy, all_proxy, no_proxy
};

// InvalidArgument on an unreadable ca_file or impossible options; connects nothing yet.
absl::StatusOr<std::unique_ptr<Engine>> MakeClient(Reactor* reactor, ClientOptions options);

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_CLIENT_H_
