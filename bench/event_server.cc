// A server of event streams for headrace_engine_bench: HTTP/2 (h2c), each request gets one event of
// --event-bytes every --interval-ms, out of phase with the others, until the client leaves. Each
// event begins with "data: t=<nanoseconds of CLOCK_MONOTONIC>".
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/async/epoll_reactor.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "common/net/tls.h"
#include "common/net/transport.h"

namespace headrace::http {
namespace {

struct Flags {
  int port = 18081;
  std::string cert;
  std::string key;
  int event_bytes = 230;
  double interval_ms = 20;
};

// How finely events are spread over time; those of one connection in one tick share a write.
constexpr absl::Duration kTick = absl::Milliseconds(1);

class Connection final : public FdHandler {
 public:
  Connection(Reactor* reactor, const Flags* flags, net::Transport transport)
      : reactor_(reactor), flags_(flags), transport_(std::move(transport)) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &OnFrame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &OnClose);
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
    HR_CHECK(reactor_->Watch(transport_.fd(), EPOLLIN, this).ok());
    ArmTick();
  }
  ~Connection() override {
    Close();
    nghttp2_session_del(session_);
  }

 private:
  struct Stream {
    MonoTime next;
    std::string out;
  };

  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    auto* self = static_cast<Connection*>(user);
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    static uint64_t count = 0;
    const absl::Duration interval = absl::Milliseconds(self->flags_->interval_ms);
    // 0.618 spreads any number of streams evenly over the interval.
    const double phase = 0.618034 * static_cast<double>(++count);
    self->streams_[frame->hd.stream_id].next =
        self->reactor_->Now() + interval * (phase - static_cast<int64_t>(phase));
    char status_name[] = ":status";
    char status[] = "200";
    const nghttp2_nv field = {reinterpret_cast<uint8_t*>(status_name),
                              reinterpret_cast<uint8_t*>(status), 7, 3, NGHTTP2_NV_FLAG_NONE};
    nghttp2_data_provider provider;
    provider.source.ptr = nullptr;
    provider.read_callback = &ReadBody;
    return nghttp2_submit_response(session, frame->hd.stream_id, &field, 1, &provider);
  }
  static int OnClose(nghttp2_session* session, int32_t id, uint32_t code, void* user) {
    static_cast<Connection*>(user)->streams_.erase(id);
    return 0;
  }
  static ssize_t ReadBody(nghttp2_session* session, int32_t id, uint8_t* buffer, size_t size,
                          uint32_t* flags, nghttp2_data_source* source, void* user) {
    std::string* out = &static_cast<Connection*>(user)->streams_[id].out;
    if (out->empty()) return NGHTTP2_ERR_DEFERRED;
    const size_t part = std::min(size, out->size());
    memcpy(buffer, out->data(), part);
    out->erase(0, part);
    return static_cast<ssize_t>(part);
  }

  void OnFdReady(uint32_t events) override {
    char buffer[16 * 1024];
    while (!closed_) {
      size_t count = 0;
      const net::Transport::Io io = transport_.Read(buffer, sizeof(buffer), &count);
      if (io == net::Transport::Io::kWouldBlock) break;
      if (io != net::Transport::Io::kOk ||
          nghttp2_session_mem_recv(session_, reinterpret_cast<uint8_t*>(buffer), count) < 0) {
        return Close();
      }
    }
    Flush();
  }

  void ArmTick() {
    reactor_->Arm(
        &timer_, reactor_->Now() + kTick,
        [](void* self) { static_cast<Connection*>(self)->OnTick(); }, this);
  }
  void OnTick() {
    const MonoTime now = reactor_->Now();
    const absl::Duration interval = absl::Milliseconds(flags_->interval_ms);
    for (auto& [id, stream] : streams_) {
      if (stream.next > now) continue;
      stream.next = stream.next + interval;
      const size_t begin = stream.out.size();
      absl::StrAppend(&stream.out, "data: t=", now.nanos(), " ");
      const size_t size = stream.out.size() - begin + 2;
      stream.out.append(std::max<size_t>(flags_->event_bytes, size) - size, 'x');
      absl::StrAppend(&stream.out, "\n\n");
      nghttp2_session_resume_data(session_, id);
    }
    Flush();
    if (!closed_) ArmTick();
  }

  void Flush() {
    while (!closed_) {
      while (!out_.empty()) {
        size_t count = 0;
        const net::Transport::Io io = transport_.Write(out_.data(), out_.size(), &count);
        if (io == net::Transport::Io::kWouldBlock) return;  // the next tick tries again
        if (io != net::Transport::Io::kOk) return Close();
        out_.erase(0, count);
      }
      const uint8_t* data = nullptr;
      ssize_t size = 0;
      while (out_.size() < 16 * 1024 && (size = nghttp2_session_mem_send(session_, &data)) > 0) {
        out_.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
      }
      if (out_.empty()) return;
    }
  }

  void Close() {
    if (std::exchange(closed_, true)) return;
    reactor_->Cancel(&timer_);
    reactor_->Unwatch(transport_.fd());
    transport_.Close();
    streams_.clear();
  }

  Reactor* const reactor_;
  const Flags* const flags_;
  net::Transport transport_;
  nghttp2_session* session_ = nullptr;
  std::map<int32_t, Stream> streams_;
  std::string out_;
  Timer timer_;
  bool closed_ = false;
};

int SelectH2(SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
             unsigned int in_size, void* context) {
  return SSL_select_next_proto(const_cast<unsigned char**>(out), out_size,
                               reinterpret_cast<const unsigned char*>("\x02h2"), 3, in,
                               in_size) == OPENSSL_NPN_NEGOTIATED
             ? SSL_TLSEXT_ERR_OK
             : SSL_TLSEXT_ERR_ALERT_FATAL;
}

class Listener final : public FdHandler {
 public:
  Listener(Reactor* reactor, const Flags* flags) : reactor_(reactor), flags_(flags) {
    fd_ = net::UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int one = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(flags->port));
    HR_CHECK(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    HR_CHECK(listen(fd_.get(), 512) == 0);
    if (!flags->cert.empty()) {
      context_ = SSL_CTX_new(TLS_server_method());
      HR_CHECK(SSL_CTX_use_certificate_file(context_, flags->cert.c_str(), SSL_FILETYPE_PEM) == 1);
      HR_CHECK(SSL_CTX_use_PrivateKey_file(context_, flags->key.c_str(), SSL_FILETYPE_PEM) == 1);
      SSL_CTX_set_alpn_select_cb(context_, &SelectH2, nullptr);
      SSL_CTX_set_mode(context_,
                       SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    HR_CHECK(reactor_->Watch(fd_.get(), EPOLLIN, this).ok());
  }

 private:
  void OnFdReady(uint32_t events) override {
    while (true) {
      const int fd = accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      // Nagle's algorithm would hold events back until the last ones are acknowledged.
      const int one = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
      net::SslPtr ssl;
      if (context_ != nullptr) {
        ssl.reset(SSL_new(context_));
        SSL_set_fd(ssl.get(), fd);
        SSL_set_accept_state(ssl.get());
      }
      connections_.push_back(std::make_unique<Connection>(
          reactor_, flags_, net::Transport(net::UniqueFd(fd), std::move(ssl))));
    }
  }

  Reactor* const reactor_;
  const Flags* const flags_;
  net::UniqueFd fd_;
  SSL_CTX* context_ = nullptr;
  std::vector<std::unique_ptr<Connection>> connections_;
};

Task<void> Main(Reactor* reactor, const Flags* flags) {
  Listener listener(reactor, flags);
  printf("listening on port %d\n", flags->port);
  fflush(stdout);
  Event never(reactor);  // until the process is killed
  co_await never.Wait(StopToken());
}

}  // namespace
}  // namespace headrace::http

int main(int argc, char** argv) {
  headrace::http::Flags flags;
  CLI::App app("Serves endless event streams over HTTP/2");
  app.add_option("--port", flags.port);
  app.add_option("--cert", flags.cert, "PEM; with --key: TLS instead of h2c");
  app.add_option("--key", flags.key);
  app.add_option("--event-bytes", flags.event_bytes);
  app.add_option("--interval-ms", flags.interval_ms);
  CLI11_PARSE(app, argc, argv);
  signal(SIGPIPE, SIG_IGN);
  auto reactor = headrace::EpollReactor::Make();
  if (!reactor.ok()) return 1;
  (*reactor)->Run(headrace::http::Main(reactor->get(), &flags));
  return 0;
}
