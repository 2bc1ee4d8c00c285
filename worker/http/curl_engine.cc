#include "worker/http/curl_engine.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "worker/http/curl_global.h"
#include "worker/http/request_check.h"

namespace headrace::http {
namespace {

// How long looked-up addresses are used: half of what libcurl keeps its own. Chosen.
constexpr absl::Duration kAddressLife = absl::Seconds(30);
// libcurl's default for a proxy without a port.
constexpr uint16_t kProxyPort = 1080;

bool IsLiteralAddress(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// "+host:port:address,address": entries with a '+' age like those that libcurl looks up itself.
std::string ResolveEntry(const std::string& host, uint16_t port,
                         const std::vector<net::Address>& addresses) {
  std::string entry = absl::StrCat("+", host, ":", port, ":");
  absl::string_view separator = "";
  for (const net::Address& address : addresses) {
    char text[INET6_ADDRSTRLEN] = "";
    if (address.family() == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
      inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
      absl::StrAppend(&entry, separator, text);
    } else {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
      inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
      absl::StrAppend(&entry, separator, "[", text, "]");
    }
    separator = ",";
  }
  return entry;
}

// The host and port of an http or https proxy. Others (SOCKS) are left to libcurl, host empty.
absl::Status ParseProxy(const std::string& proxy, std::string* host, uint16_t* port) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), &curl_url_cleanup);
  const std::string text = absl::StrContains(proxy, "://") ? proxy : absl::StrCat("http://", proxy);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    // The URL may hold a password.
    return absl::InvalidArgumentError("the proxy that the environment names is no URL");
  }
  if (!absl::StartsWith(text, "http://") && !absl::StartsWith(text, "https://")) {
    return absl::OkStatus();
  }
  char* part = nullptr;
  if (curl_url_get(url.get(), CURLUPART_HOST, &part, 0) == CURLUE_OK) {
    *host = std::string(absl::StripSuffix(absl::StripPrefix(part, "["), "]"));
    curl_free(part);
  }
  *port = absl::StartsWith(text, "https://") ? 443 : kProxyPort;
  part = nullptr;
  if (curl_url_get(url.get(), CURLUPART_PORT, &part, 0) == CURLUE_OK) {
    int number = 0;
    if (absl::SimpleAtoi(part, &number)) *port = static_cast<uint16_t>(number);
    curl_free(part);
  }
  return absl::OkStatus();
}

}  // namespace

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
  settings.connect_host = endpoint.host;
  settings.connect_port = endpoint.port;
  if (!proxy.empty()) {
    settings.connect_host.clear();
    HR_RETURN_IF_ERROR(ParseProxy(proxy, &settings.connect_host, &settings.connect_port));
  }
  if (IsLiteralAddress(settings.connect_host)) settings.connect_host.clear();
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
      resolver_(reactor, kAddressLife),
      idle_(reactor) {
  idle_.Set();
}

CurlEngine::~CurlEngine() { HR_CHECK(live_ == 0) << live_ << " calls outlive their engine"; }

Task<CallResult> CurlEngine::Call(const Request* request, Receiver* receiver, StopToken stop) {
  ++calls_;
  if (++live_ == 1) idle_.Reset();
  CurlTransfer transfer(reactor_, &settings_, &connections_, request, receiver, reactor_->Now());
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
  const MonoTime began = reactor_->Now();
  const bool resolved = co_await Resolve(transfer, stop);
  if (resolved) {
    PickShard()->Start(transfer, reactor_->Now() - began, addresses_);
    transfer->CancelOn(stop);
    co_await transfer->done().Wait(StopToken());
  }
  slots_.Release();
}

// libcurl would start a thread for each call that finds its multi handle's cache empty: a thousand
// for a herd of a thousand.
Task<bool> CurlEngine::Resolve(CurlTransfer* transfer, StopToken stop) {
  const MonoTime now = reactor_->Now();
  if (settings_.connect_host.empty() || now < addresses_until_) co_return true;
  const Timeouts& timeouts = transfer->request().timeouts;
  DeadlineSource deadline(reactor_, now + std::min(timeouts.connect, timeouts.total), stop);
  ++resolving_;
  const absl::StatusOr<std::vector<net::Address>> addresses =
      co_await resolver_.Resolve(settings_.connect_host, settings_.connect_port, deadline.token());
  --resolving_;
  if (addresses.ok()) {
    addresses_ = ResolveEntry(settings_.connect_host, settings_.connect_port, *addresses);
    addresses_until_ = reactor_->Now() + kAddressLife;
    co_return true;
  }
  if (stop.stopped()) {
    transfer->Reject(CallEnd::kCancelled, TimerKind::kNone, "stopped before it was sent");
  } else if (!addresses_.empty()) {
    // The old addresses, and the connections that still stand, may well do.
    co_return true;
  } else if (deadline.token().stopped()) {
    transfer->Reject(CallEnd::kTimedOut, TimerKind::kConnect, "no answer to the name lookup");
  } else {
    transfer->RejectUnconnected(addresses.status().message());
  }
  co_return false;
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
  stats.waiting = static_cast<int64_t>(slots_.waiting()) + resolving_;
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
