#include "worker/http/curl_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "worker/http/curl_global.h"
#include "worker/http/request_check.h"

namespace headrace::http {

absl::StatusOr<std::unique_ptr<CurlEngine>> CurlEngine::Make(Reactor* reactor,
                                                             ClientOptions options,
                                                             std::string proxy) {
  HR_RETURN_IF_ERROR(EnsureCurl());
  if (options.endpoint.host.empty() || options.endpoint.port == 0) {
    return absl::InvalidArgumentError("the endpoint has no host or no port");
  }
  if (options.idle_timeout <= absl::ZeroDuration() ||
      options.max_connection_age <= absl::ZeroDuration() ||
      options.max_requests_per_connection < 1) {
    return absl::InvalidArgumentError(
        "idle_timeout, max_connection_age and max_requests_per_connection must be positive");
  }
  HR_ASSIGN_OR_RETURN(std::string ca_bundle, CaBundle(options.ca_file));
  const Url& endpoint = options.endpoint;
  CurlSettings settings;
  settings.base_url = absl::StrCat(endpoint.tls ? "https://" : "http://", endpoint.authority());
  settings.host = absl::StrCat(endpoint.host, ":", endpoint.port);
  settings.ca_bundle = std::move(ca_bundle);
  settings.proxy = std::move(proxy);
  settings.idle_timeout = options.idle_timeout;
  settings.max_connection_age = options.max_connection_age;
  settings.max_requests_per_connection = options.max_requests_per_connection;
  return std::unique_ptr<CurlEngine>(new CurlEngine(reactor, std::move(settings)));
}

CurlEngine::CurlEngine(Reactor* reactor, CurlSettings settings)
    : reactor_(reactor),
      settings_(std::move(settings)),
      slots_(reactor, kMaxInFlight),
      idle_(reactor) {
  idle_.Set();
}

CurlEngine::~CurlEngine() { HR_CHECK(live_ == 0) << live_ << " calls outlive their engine"; }

Task<CallResult> CurlEngine::Call(Request request, Receiver* receiver, StopToken stop) {
  ++calls_;
  if (++live_ == 1) idle_.Reset();
  CurlTransfer transfer(reactor_, &settings_, &connections_, std::move(request), receiver,
                        reactor_->Now());
  const absl::Status valid = CheckRequest(transfer.request());
  if (!valid.ok()) {
    transfer.Reject(CallEnd::kNotSent, TimerKind::kNone, valid.message());
  } else if (closing_) {
    transfer.Reject(CallEnd::kNotSent, TimerKind::kNone, "the engine is shut down");
  } else {
    co_await Run(&transfer, stop);
  }
  CallResult result = transfer.TakeResult();
  replays_ += result.replays;
  if (--live_ == 0) idle_.Set();
  co_return result;
}

Task<void> CurlEngine::Run(CurlTransfer* transfer, StopToken stop) {
  const bool admitted = co_await slots_.Acquire(stop);
  if (!admitted) {
    transfer->Reject(CallEnd::kCancelled, TimerKind::kNone, "stopped before it was sent");
    co_return;
  }
  PickShard()->Start(transfer, absl::ZeroDuration(), "");
  transfer->CancelOn(stop);
  co_await transfer->done().Wait(StopToken());
  slots_.Release();
}

// The first shard with room: few calls use few shards, whose connections stay warm, and the others
// close theirs when they have been idle.
CurlShard* CurlEngine::PickShard() {
  for (const std::unique_ptr<CurlShard>& shard : shards_) {
    if (!shard->full()) return shard.get();
  }
  HR_CHECK(shards_.size() < kMaxShards) << "more calls than slots";
  shards_.push_back(std::make_unique<CurlShard>(reactor_, settings_.idle_timeout));
  return shards_.back().get();
}

EngineStats CurlEngine::stats() const {
  EngineStats stats;
  stats.connections = connections_.open();
  stats.connections_made = connections_.made();
  stats.waiting = static_cast<int64_t>(slots_.waiting());
  stats.replays = replays_;
  stats.calls = calls_;
  for (const std::unique_ptr<CurlShard>& shard : shards_) {
    stats.streams += static_cast<int64_t>(shard->size());
    stats.resets_sent += shard->aborted();
  }
  return stats;
}

Task<void> CurlEngine::Shutdown() {
  closing_ = true;
  co_await idle_.Wait(StopToken());
  shards_.clear();
}

}  // namespace headrace::http
