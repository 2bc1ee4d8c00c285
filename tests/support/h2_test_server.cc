#include "tests/support/h2_test_server.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/async/epoll_reactor.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "tests/support/h2_server_connection.h"
#include "tests/support/test_certificate.h"

namespace headrace::http {
namespace {

int SelectAlpn(SSL* ssl, const unsigned char** out, unsigned char* out_size,
               const unsigned char* in, unsigned int in_size, void* offers_h2) {
  static constexpr unsigned char kH2[] = "\x02h2";
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  const bool h2 = *static_cast<const bool*>(offers_h2);
  const int result = SSL_select_next_proto(const_cast<unsigned char**>(out), out_size,
                                           h2 ? kH2 : kHttp11, h2 ? 3 : 9, in, in_size);
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

class H2TestServer final : public TestServer, private FdHandler {
 public:
  H2TestServer(TestServerOptions options, H2ServerExtras extras)
      : shared_(options, extras), offers_h2_(extras.offers_h2) {
    if (options.tls) MakeTls();
    Listen();
    thread_ = std::thread([this] { Serve(); });
  }

  ~H2TestServer() override {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &H2TestServer::running));
    }
    reactor_->Post([this] { stop_->RequestStop(StopReason{StopCode::kShutdown, {}}); });
    thread_.join();
    close(listener_);
    if (context_ != nullptr) SSL_CTX_free(context_);
  }

  Url url() const override {
    Url url;
    url.tls = shared_.options.tls;
    url.host = url.tls ? "localhost" : "127.0.0.1";
    url.port = port_;
    url.path = "/";
    return url;
  }
  std::string ca_file() const override {
    return certificate_ == nullptr ? "" : certificate_->cert_file();
  }
  bool multiplexes() const override { return true; }
  void SetScripts(std::string path, std::vector<Script> scripts) override {
    absl::MutexLock lock(&shared_.mutex);
    shared_.scripts[std::move(path)] = {std::move(scripts), 0};
  }
  TestServerStats stats() const override {
    absl::MutexLock lock(&shared_.mutex);
    return shared_.stats;
  }
  bool WaitFor(bool (*condition)(const TestServerStats&), absl::Duration timeout) override {
    absl::MutexLock lock(&shared_.mutex);
    const auto holds = [this, condition] { return condition(shared_.stats); };
    return shared_.mutex.AwaitWithTimeout(absl::Condition(&holds), timeout);
  }

 private:
  bool running() const { return stop_ != nullptr; }

  void MakeTls() {
    certificate_ = std::make_unique<TestCertificate>();
    context_ = SSL_CTX_new(TLS_server_method());
    HR_CHECK(SSL_CTX_use_certificate_file(context_, certificate_->cert_file().c_str(),
                                          SSL_FILETYPE_PEM) == 1);
    HR_CHECK(SSL_CTX_use_PrivateKey_file(context_, certificate_->key_file().c_str(),
                                         SSL_FILETYPE_PEM) == 1);
    SSL_CTX_set_alpn_select_cb(context_, &SelectAlpn, &offers_h2_);
    SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(context_, SSL_OP_IGNORE_UNEXPECTED_EOF);
  }

  void Listen() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    HR_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    HR_CHECK(listen(listener_, 512) == 0);
    HR_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }

  void Serve() {
    absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
    HR_CHECK(reactor.ok()) << reactor.status();
    reactor_ = reactor->get();
    reactor_->Run(Main());
    connections_.clear();
    reactor->reset();
  }

  Task<void> Main() {
    StopSource stop;
    HR_CHECK(reactor_->Watch(listener_, EPOLLIN, this).ok());
    {
      absl::MutexLock lock(&mutex_);
      stop_ = &stop;
    }
    Event never(reactor_);
    co_await never.Wait(stop.token());
    reactor_->Unwatch(listener_);
    connections_.clear();
  }

  void OnFdReady(uint32_t events) override {
    // Those that have closed since.
    std::erase_if(connections_, [](const auto& c) { return c->closed(); });
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int one = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
      SSL* ssl = nullptr;
      if (context_ != nullptr) {
        ssl = SSL_new(context_);
        SSL_set_fd(ssl, fd);
        SSL_set_accept_state(ssl);
      }
      connections_.push_back(std::make_unique<H2ServerConnection>(
          reactor_, &shared_, net::Transport(net::UniqueFd(fd), net::SslPtr(ssl))));
      connections_.back()->Start();
    }
  }

  mutable H2ServerShared shared_;
  bool offers_h2_;
  std::unique_ptr<TestCertificate> certificate_;
  SSL_CTX* context_ = nullptr;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
  absl::Mutex mutex_;
  StopSource* stop_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Reactor* reactor_ = nullptr;  // the thread's own
  std::vector<std::unique_ptr<H2ServerConnection>> connections_;
};

}  // namespace

std::unique_ptr<TestServer> MakeH2TestServer(TestServerOptions options, H2ServerExtras extras) {
  return std::make_unique<H2TestServer>(options, extras);
}

}  // namespace headrace::http
