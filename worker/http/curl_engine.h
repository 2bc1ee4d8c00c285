// The HTTP/1.1 engine: libcurl's multi interface on the reactor's own epoll. It serves self-hosted
// servers (vLLM, llama.cpp) and everything behind a proxy.
//
// One connection carries one call at a time, so the calls in flight are the connections; the
// worker's gate bounds them, and kMaxInFlight here bounds them once more. libcurl itself never
// queues a call and never sends one twice. See curl_transfer.h for how a call ends.
#ifndef HEADRACE_WORKER_HTTP_CURL_ENGINE_H_
#define HEADRACE_WORKER_HTTP_CURL_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/net/resolver.h"
#include "worker/http/client.h"
#include "worker/http/curl_connections.h"
#include "worker/http/curl_shard.h"
#include "worker/http/curl_transfer.h"
#include "worker/http/http.h"

namespace headrace::http {

class CurlEngine final : public Engine {
 public:
  // Shards of one engine, and so the calls in flight: others wait. Chosen, not measured.
  static constexpr size_t kMaxShards = 64;
  static constexpr int64_t kMaxInFlight = int64_t{kMaxShards * CurlShard::kTransfers};

  // Connects nothing yet. `proxy`: a URL, empty for none; the environment is not asked.
  // InvalidArgument on an unreadable ca_file or impossible options, FailedPrecondition on a libcurl
  // that is too old.
  static absl::StatusOr<std::unique_ptr<CurlEngine>> Make(Reactor* reactor, ClientOptions options,
                                                          std::string proxy = "");
  ~CurlEngine() override;

  Task<CallResult> Call(const Request* request, Receiver* receiver, StopToken stop) override;
  EngineStats stats() const override;
  Task<void> Shutdown() override;

  size_t shard_count() const { return shards_.size(); }

 private:
  CurlEngine(Reactor* reactor, CurlSettings settings);

  Task<void> Run(CurlTransfer* transfer, StopToken stop);
  // Sees to it that addresses_ is fresh. False, with the transfer rejected, when it cannot be.
  Task<bool> Resolve(CurlTransfer* transfer, StopToken stop);
  CurlShard* PickShard();

  Reactor* const reactor_;
  const CurlSettings settings_;
  CurlConnections connections_;
  std::vector<std::unique_ptr<CurlShard>> shards_;
  Semaphore slots_;
  net::Resolver resolver_;
  std::string addresses_;  // of the host to connect to, as CURLOPT_RESOLVE takes them
  MonoTime addresses_until_;
  int64_t resolving_ = 0;  // calls that wait for them
  int64_t calls_ = 0;
  int64_t replays_ = 0;
  int64_t live_ = 0;
  bool closing_ = false;
  Event idle_;  // set while no call is live
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_CURL_ENGINE_H_
