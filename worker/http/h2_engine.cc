#include "worker/http/h2_engine.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "worker/http/h2_call.h"
#include "worker/http/request_check.h"

namespace headrace::http {
namespace {

// After ENHANCE_YOUR_CALM the cap on streams is doubled again each time this long has passed
// without another. Chosen, not measured.
constexpr absl::Duration kCalmRecovery = absl::Seconds(30);
// A peer that refuses streams again and again gets this pause, doubled with each replay of one
// call.
constexpr absl::Duration kRefusedPause = absl::Milliseconds(2);
// How long a shutdown waits for its last frames to leave. Chosen, not measured.
constexpr absl::Duration kGoodbyeLimit = absl::Seconds(1);
constexpr absl::Duration kGoodbyePoll = absl::Milliseconds(2);

net::ConnectorOptions ConnectorOptionsOf(const ClientOptions& options) {
  net::ConnectorOptions result;
  result.host = options.endpoint.host;
  result.port = options.endpoint.port;
  if (options.endpoint.tls) result.tls = net::TlsOptions{.ca_file = options.ca_file};
  result.alpn = {"h2", "http/1.1"};
  result.name = options.endpoint.authority();
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<H2Engine>> H2Engine::Make(Reactor* reactor, ClientOptions options,
                                                         H2Tuning tuning) {
  if (options.max_connections < 1 || options.streams_per_connection < 1 ||
      options.max_requests_per_connection < 1) {
    return absl::InvalidArgumentError(
        "connections, streams and requests per connection must be at least 1");
  }
  absl::StatusOr<std::unique_ptr<net::Connector>> connector =
      net::Connector::Make(reactor, ConnectorOptionsOf(options));
  if (!connector.ok()) return connector.status();
  return std::unique_ptr<H2Engine>(
      new H2Engine(reactor, std::move(options), tuning, *std::move(connector)));
}

H2Engine::H2Engine(Reactor* reactor, ClientOptions options, H2Tuning tuning,
                   std::unique_ptr<net::Connector> connector)
    : H2Host(reactor, std::move(options), tuning),
      connector_(std::move(connector)),
      calm_pause_(tuning.calm_pause),
      stream_cap_(this->options().streams_per_connection),
      peer_streams_(H2Connection::kAssumedPeerStreams),
      quiet_(reactor),
      scope_(reactor, StopToken()) {
  quiet_.Set();
}

H2Engine::~H2Engine() { reactor()->Cancel(&wake_); }

Task<absl::StatusOr<Protocol>> H2Engine::Probe(absl::Duration timeout, StopToken stop) {
  if (!options().endpoint.tls || !connections_.empty()) co_return Protocol::kHttp2;
  absl::StatusOr<net::Transport> transport = co_await connector_->Connect(timeout, stop);
  if (!transport.ok()) co_return transport.status();
  if (transport->alpn() != "h2") {
    transport->Close();
    co_return Protocol::kHttp11;
  }
  const absl::Status adopted = Adopt(*std::move(transport));
  if (!adopted.ok()) co_return adopted;
  co_return Protocol::kHttp2;
}

Task<CallResult> H2Engine::Call(const Request* request, Receiver* receiver, StopToken stop) {
  H2Call call(this, request, receiver, stop);
  ++stats_.calls;
  ++live_;
  quiet_.Reset();
  // nghttp2 sends what it is given.
  const absl::Status valid = CheckRequest(*request);
  if (!valid.ok()) {
    call.OnRefused(valid.message());
  } else if (stopping_) {
    call.OnEngineStopped();
  } else if (call.Begin()) {
    waiting_.PushBack(&call);
    ++stats_.waiting;
    Dispatch();
  }
  co_await call.Ended();
  co_return call.TakeResult();
}

EngineStats H2Engine::stats() const {
  EngineStats stats = stats_;
  stats.connections = static_cast<int64_t>(connections_.size());
  stats.streams = live_ - stats.waiting;
  return stats;
}

Task<void> H2Engine::Shutdown() {
  stopping_ = true;
  while (H2Call* call = NextWaiting()) {
    --stats_.waiting;
    call->OnEngineStopped();
  }
  scope_.RequestStop({StopCode::kShutdown, {}});
  co_await quiet_.Wait(StopToken());
  reactor()->Cancel(&wake_);
  co_await scope_.Join();
  for (const std::unique_ptr<H2Connection>& connection : connections_) connection->Drain();
  // Draining connections close at the end of the turn, or when their output has gone out.
  const MonoTime limit = reactor()->Now() + kGoodbyeLimit;
  while (!connections_.empty() && reactor()->Now() < limit) {
    Sleep moment(reactor(), kGoodbyePoll, StopToken());
    co_await moment;
  }
  connections_.clear();
  gone_.clear();
}

void H2Engine::Replay(H2Call* call) {
  ++stats_.replays;
  if (call->tries() >= 2) Pause(kRefusedPause * (1 << std::min(call->tries(), 8)));
  replays_.PushBack(call);
  ++stats_.waiting;
  Dispatch();
}

void H2Engine::OnCallEnded(H2Call* call, bool was_waiting) {
  if (was_waiting) --stats_.waiting;
  if (--live_ == 0) quiet_.Set();
}

void H2Engine::OnRoom(H2Connection* connection) {
  peer_streams_ = connection->peer_streams();
  Dispatch();
}

void H2Engine::OnDraining(H2Connection* connection) {
  // Its successor: the streams that it still has say that there is demand.
  if (connection->streams() > 0 && !stopping_) OpenMore(/*successor=*/true);
}

void H2Engine::OnGone(H2Connection* connection) {
  for (std::unique_ptr<H2Connection>& owned : connections_) {
    if (owned.get() != connection) continue;
    gone_.push_back(std::move(owned));
    std::swap(owned, connections_.back());
    connections_.pop_back();
    break;
  }
  reactor()->RequestEndOfTurn(this);
  Dispatch();
}

void H2Engine::OnEndOfTurn() { gone_.clear(); }

void H2Engine::OnCalm() {
  const MonoTime now = reactor()->Now();
  // Many streams may say it in one breath; one answer to all of them.
  if (now < paused_until_) return;
  stream_cap_ = std::max(1, stream_cap_ / 2);
  HR_LOG(kWarning) << authority() << " asks for calm: pause of "
                   << absl::FormatDuration(calm_pause_) << ", " << stream_cap_
                   << " streams per connection";
  calm_until_ = now + kCalmRecovery;
  for (const std::unique_ptr<H2Connection>& connection : connections_) connection->UpdateLimit();
  Pause(calm_pause_);
  calm_pause_ = std::min(calm_pause_ * 2, tuning().max_calm_pause);
  ArmWake(calm_until_);
}

void H2Engine::Pause(absl::Duration pause) {
  paused_until_ = std::max(paused_until_, reactor()->Now() + pause);
  ArmWake(paused_until_);
}

void H2Engine::ArmWake(MonoTime when) {
  if (wake_.armed() && wake_.when() <= when) return;
  reactor()->Arm(&wake_, when, [](void* self) { static_cast<H2Engine*>(self)->OnWake(); }, this);
}

void H2Engine::OnWake() {
  const MonoTime now = reactor()->Now();
  const int full = options().streams_per_connection;
  if (stream_cap_ < full) {
    if (now >= calm_until_) {
      stream_cap_ = std::min(full, stream_cap_ * 2);
      calm_until_ = now + kCalmRecovery;
      if (stream_cap_ == full) calm_pause_ = tuning().calm_pause;
      for (const std::unique_ptr<H2Connection>& c : connections_) c->UpdateLimit();
    }
    if (stream_cap_ < full) ArmWake(calm_until_);
  }
  if (now < paused_until_) ArmWake(paused_until_);
  Dispatch();
}

H2Call* H2Engine::NextWaiting() {
  H2Call* call = replays_.PopFront();
  return call != nullptr ? call : waiting_.PopFront();
}

H2Connection* H2Engine::LeastLoaded() {
  H2Connection* best = nullptr;
  for (const std::unique_ptr<H2Connection>& connection : connections_) {
    if (!connection->accepts()) continue;
    if (best == nullptr || connection->streams() < best->streams()) best = connection.get();
  }
  return best;
}

void H2Engine::Dispatch() {
  // A submit can end in a replay, which comes back here.
  if (stats_.waiting == 0 || dispatching_ || stopping_) return;
  if (reactor()->Now() < paused_until_) return;
  dispatching_ = true;
  while (stats_.waiting > 0) {
    H2Connection* connection = LeastLoaded();
    if (connection == nullptr) break;
    H2Call* call = NextWaiting();
    --stats_.waiting;
    if (connection->Submit(call)) continue;
    replays_.PushBack(call);  // that connection has no stream ids left and is draining now
    ++stats_.waiting;
  }
  dispatching_ = false;
  if (stats_.waiting > 0) OpenMore(/*successor=*/false);
}

int H2Engine::OpenConnections() const {
  return static_cast<int>(
      std::count_if(connections_.begin(), connections_.end(),
                    [](const std::unique_ptr<H2Connection>& c) { return c->open(); }));
}

void H2Engine::OpenMore(bool successor) {
  if (stopping_) return;
  const int open = OpenConnections();
  // What a new connection will take. A peer that allows none gets one connection and no more.
  const int64_t streams = std::min(stream_cap_, peer_streams_);
  if (streams <= 0 && open > 0) return;
  int64_t wanted =
      (stats_.waiting + std::max<int64_t>(streams, 1) - 1) / std::max<int64_t>(streams, 1);
  if (successor && open == 0) wanted = std::max<int64_t>(wanted, 1);
  wanted = std::min<int64_t>(wanted, tuning().max_connecting);
  // Draining ones do not count: they would keep their successors out for as long as a stream lasts.
  wanted = std::min<int64_t>(wanted, options().max_connections - open);
  if (wanted <= connecting_) return;
  if (reactor()->Now() < next_connect_) return ArmWake(next_connect_);
  const H2Call* first = replays_.front() != nullptr ? replays_.front() : waiting_.front();
  const absl::Duration timeout =
      first != nullptr ? first->request().timeouts.connect : Timeouts().connect;
  for (; connecting_ < wanted; ++connecting_) {
    if (!scope_.Spawn(OpenOne(timeout))) return;
  }
}

Task<void> H2Engine::OpenOne(absl::Duration timeout) {
  absl::StatusOr<net::Transport> transport = co_await connector_->Connect(timeout, scope_.token());
  --connecting_;
  absl::Status status = transport.status();
  if (status.ok() && transport->tls() && transport->alpn() != "h2") {
    status = absl::UnavailableError(absl::StrCat(authority(), " does not offer HTTP/2"));
    transport->Close();
  }
  if (status.ok()) status = Adopt(*std::move(transport));
  if (status.ok()) {
    connect_failures_ = 0;
    Dispatch();
  } else if (!stopping_) {
    OnConnectFailed(status);
  }
}

absl::Status H2Engine::Adopt(net::Transport transport) {
  auto connection = std::make_unique<H2Connection>(static_cast<H2Host*>(this), std::move(transport),
                                                   next_connection_id_++, peer_streams_);
  H2Connection* started = connection.get();
  connections_.push_back(std::move(connection));
  ++stats_.connections_made;
  const absl::Status status = started->Start();
  if (status.ok()) return status;
  connections_.pop_back();
  return status;
}

void H2Engine::OnConnectFailed(const absl::Status& status) {
  const int doublings = std::min(connect_failures_++, 10);
  next_connect_ = reactor()->Now() +
                  std::min(tuning().connect_gap * (1 << doublings), tuning().max_connect_gap);
  if (OpenConnections() == 0 && connecting_ == 0) {
    // Nobody can serve those who wait. Each ends at its own pace later; new calls try again.
    while (H2Call* call = NextWaiting()) {
      --stats_.waiting;
      call->OnNoConnection(status);
    }
    return;
  }
  if (stats_.waiting > 0) ArmWake(next_connect_);
}

}  // namespace headrace::http
