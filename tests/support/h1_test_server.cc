#include "tests/support/h1_test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"

namespace headrace::http {
namespace {

constexpr size_t kReadBytes = 16384;

std::string HeaderOf(const std::string& head, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(head, "\r\n")) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    if (absl::EqualsIgnoreCase(line.substr(0, colon), name)) {
      return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
  }
  return "";
}

}  // namespace

// One accepted connection, served by its own thread.
class H1Connection {
 public:
  H1Connection(H1TestServer* server, int fd, int number)
      : server_(server), fd_(fd), number_(number) {}
  ~H1Connection() { SSL_free(ssl_); }

  void Serve() {
    if (server_->context_ != nullptr && !ShakeHands()) return;
    while (ServeRequest()) {
    }
  }
  // How the connection is to be closed: SO_LINGER 0 makes it a reset.
  bool reset() const { return reset_; }

 private:
  enum class Next { kStep, kRequest, kClose };

  bool ShakeHands() {
    ssl_ = SSL_new(server_->context_);
    SSL_set_fd(ssl_, fd_);
    if (SSL_accept(ssl_) != 1) return false;
    if (SSL_session_reused(ssl_) == 1) {
      server_->Count([](TestServerStats* s) { ++s->resumed_sessions; });
    }
    return true;
  }

  // False at the end of the connection.
  bool ReadMore() {
    char data[kReadBytes];
    const ssize_t count =
        ssl_ != nullptr ? SSL_read(ssl_, data, sizeof(data)) : recv(fd_, data, sizeof(data), 0);
    if (count <= 0) return false;
    input_.append(data, static_cast<size_t>(count));
    return true;
  }

  bool Write(const std::string& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const size_t left = bytes.size() - done;
      const ssize_t count = ssl_ != nullptr
                                ? SSL_write(ssl_, bytes.data() + done, static_cast<int>(left))
                                : send(fd_, bytes.data() + done, left, MSG_NOSIGNAL);
      if (count <= 0) return false;
      done += static_cast<size_t>(count);
    }
    return true;
  }

  bool ServeRequest() {
    size_t end = 0;
    while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
      if (!ReadMore()) return false;
      // A TLS handshake came to the plain server.
      if (input_[0] == '\x16') return Write("HTTP/1.1 400 Bad Request\r\n\r\n") && false;
    }
    head_ = input_.substr(0, end + 4);
    input_.erase(0, end + 4);
    body_.clear();
    body_read_ = chunked_ = false;
    body_left_ = 0;
    body_size_ = 0;
    uint64_t length = 0;
    if (absl::SimpleAtoi(HeaderOf(head_, "content-length"), &length)) body_size_ = length;
    const bool expects = !HeaderOf(head_, "expect").empty();
    server_->Count([expects](TestServerStats* s) {
      ++s->requests;
      s->max_streams = 1;
      s->expect_headers += expects ? 1 : 0;
    });
    const std::vector<std::string> words = absl::StrSplit(head_.substr(0, head_.find('\r')), ' ');
    const H1TestServer::Raw* raw = nullptr;
    const Script script = server_->NextScript(words.size() > 1 ? words[1] : "", &raw);
    if (raw != nullptr) return SendRaw(*raw);
    for (const Step& step : script) {
      switch (Run(step)) {
        case Next::kStep:
          break;
        case Next::kRequest:
          return true;
        case Next::kClose:
          return false;
      }
    }
    // The script leaves the response unfinished.
    WaitForPeer(absl::InfiniteDuration());
    return false;
  }

  bool SendRaw(const H1TestServer::Raw& raw) {
    if (!AwaitBody() || !Write(raw.bytes)) return false;
    switch (raw.after) {
      case H1TestServer::After::kKeep:
        return true;
      case H1TestServer::After::kClose:
        Fin(/*goodbye=*/true);
        return false;
      case H1TestServer::After::kTruncate:
        Fin(/*goodbye=*/false);
        return false;
      case H1TestServer::After::kTcpReset:
        reset_ = true;
        return false;
    }
    return false;
  }

  Next Run(const Step& step) {
    switch (step.kind) {
      case Step::Kind::kAwaitBody:
        return AwaitBody() ? Next::kStep : Lost();
      case Step::Kind::kDelay:
        return WaitForPeer(step.delay) ? Next::kStep : Next::kClose;
      case Step::Kind::kHeaders:
        return SendHeaders(step) ? Next::kStep : Lost();
      case Step::Kind::kData:
        return SendData(step.text) ? Next::kStep : Lost();
      case Step::Kind::kEnd:
        return EndResponse();
      case Step::Kind::kGoAway:
        return Next::kStep;
      case Step::Kind::kFin:
        Fin(/*goodbye=*/true);
        return Next::kClose;
      case Step::Kind::kReset:
      case Step::Kind::kTcpReset:
        reset_ = true;
        return Next::kClose;
      case Step::Kind::kBlackHole:
        WaitForPeer(absl::InfiniteDuration());
        return Next::kClose;
    }
    return Next::kClose;
  }

  Next Lost() {
    server_->Count([](TestServerStats* s) { ++s->resets; });
    return Next::kClose;
  }

  bool AwaitBody() {
    if (body_read_) return true;
    while (input_.size() < body_size_) {
      if (!ReadMore()) return false;
    }
    body_ = input_.substr(0, body_size_);
    input_.erase(0, body_size_);
    body_read_ = true;
    server_->Count([this](TestServerStats* s) {
      ++s->bodies;
      server_->seen_.push_back({head_, body_, number_});
    });
    return true;
  }

  // Waits, without reading. False when the peer has gone, or the test is over, before that.
  bool WaitForPeer(absl::Duration delay) {
    pollfd fd{.fd = fd_, .events = POLLRDHUP, .revents = 0};
    const int timeout_ms =
        delay == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(delay));
    if (poll(&fd, 1, timeout_ms) == 0) return true;
    Lost();
    return false;
  }

  bool SendHeaders(const Step& step) {
    std::string text = absl::StrCat("HTTP/1.1 ", step.status, " Scripted\r\n");
    std::optional<uint64_t> length;
    for (const auto& [name, value] : step.headers) {
      absl::StrAppend(&text, name, ": ", value, "\r\n");
      uint64_t bytes = 0;
      if (name == "content-length" && absl::SimpleAtoi(value, &bytes)) length = bytes;
    }
    chunked_ = !length.has_value() && step.status >= 200 && step.status != 204;
    if (chunked_) absl::StrAppend(&text, "transfer-encoding: chunked\r\n");
    body_left_ = length.value_or(0);
    return Write(absl::StrCat(text, "\r\n"));
  }

  bool SendData(const std::string& text) {
    if (text.empty()) return true;
    if (chunked_) return Write(absl::StrFormat("%x\r\n%s\r\n", text.size(), text));
    body_left_ -= std::min<uint64_t>(body_left_, text.size());
    return Write(text);
  }

  Next EndResponse() {
    if (body_left_ > 0) {
      Fin(/*goodbye=*/true);
      return Next::kClose;
    }
    if (chunked_ && !Write("0\r\n\r\n")) return Lost();
    // The next request begins behind what is left of this one's body.
    return AwaitBody() ? Next::kRequest : Next::kClose;
  }

  // Ends our side, and waits for the peer to do the same: closing with unread bytes would reset.
  void Fin(bool goodbye) {
    if (ssl_ != nullptr && goodbye) SSL_shutdown(ssl_);
    shutdown(fd_, SHUT_WR);
    server_->Count([this](TestServerStats*) { ++server_->fins_; });
    pollfd fd{.fd = fd_, .events = POLLRDHUP, .revents = 0};
    poll(&fd, 1, 2000);
  }

  H1TestServer* const server_;
  const int fd_;
  const int number_;
  SSL* ssl_ = nullptr;
  bool reset_ = false;
  std::string input_;
  std::string head_;
  std::string body_;
  size_t body_size_ = 0;
  bool body_read_ = false;
  bool chunked_ = false;
  uint64_t body_left_ = 0;  // of the response's content-length
};

H1TestServer::H1TestServer(TestServerOptions options, std::shared_ptr<TestCertificate> certificate)
    : options_(options), certificate_(std::move(certificate)) {
  signal(SIGPIPE, SIG_IGN);
  if (certificate_ == nullptr) certificate_ = std::make_shared<TestCertificate>();
  if (options_.tls) {
    context_ = SSL_CTX_new(TLS_server_method());
    HR_CHECK(SSL_CTX_use_certificate_chain_file(context_, certificate_->cert_file().c_str()) == 1);
    HR_CHECK(SSL_CTX_use_PrivateKey_file(context_, certificate_->key_file().c_str(),
                                         SSL_FILETYPE_PEM) == 1);
  }
  listen_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  HR_CHECK(bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  HR_CHECK(listen(listen_fd_, 1024) == 0);
  socklen_t size = sizeof(address);
  getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  accept_thread_ = std::thread([this] { Accept(); });
}

H1TestServer::~H1TestServer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (const int fd : open_fds_) shutdown(fd, SHUT_RDWR);
  }
  shutdown(listen_fd_, SHUT_RDWR);
  accept_thread_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listen_fd_);
  SSL_CTX_free(context_);
}

void H1TestServer::Accept() {
  while (true) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) {
      close(fd);
      return;
    }
    open_fds_.insert(fd);
    ++stats_.open_connections;
    const int number = ++stats_.connections;
    threads_.emplace_back([this, fd, number] {
      bool reset = false;
      {
        H1Connection connection(this, fd, number);
        connection.Serve();
        reset = connection.reset();
      }
      Count([this, fd, reset](TestServerStats* s) {
        // A reset instead of a FIN.
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        if (reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(fd);
        open_fds_.erase(fd);
        --s->open_connections;
      });
    });
    changed_.notify_all();
  }
}

Url H1TestServer::url() const {
  Url url;
  url.tls = options_.tls;
  url.host = options_.tls ? "localhost" : "127.0.0.1";
  url.port = static_cast<uint16_t>(port_);
  url.path = "/";
  return url;
}

std::string H1TestServer::ca_file() const { return options_.tls ? certificate_->cert_file() : ""; }

void H1TestServer::SetScripts(std::string path, std::vector<Script> scripts) {
  const std::lock_guard<std::mutex> lock(mutex_);
  answers_[path] = Answers{.scripts = std::move(scripts), .next = 0, .raw = nullptr};
}

void H1TestServer::SetRaw(std::string path, std::string bytes, After after) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Answers answers;
  answers.raw = std::make_unique<Raw>(Raw{std::move(bytes), after});
  answers_[path] = std::move(answers);
}

Script H1TestServer::NextScript(const std::string& path, const Raw** raw) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = answers_.find(path);
  if (it == answers_.end()) {
    return {step::AwaitBody(), step::Headers(404, {{"content-length", "0"}}), step::End()};
  }
  Answers& answers = it->second;
  *raw = answers.raw.get();
  if (answers.raw != nullptr) return {};
  const size_t index = std::min(answers.next, answers.scripts.size() - 1);
  ++answers.next;
  return answers.scripts[index];
}

TestServerStats H1TestServer::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

std::vector<H1TestServer::SeenRequest> H1TestServer::seen() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return seen_;
}

bool H1TestServer::WaitFor(bool (*condition)(const TestServerStats&), absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout),
                           [&] { return condition(stats_); });
}

bool H1TestServer::WaitForFins(int count, absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout),
                           [&] { return fins_ >= count; });
}

}  // namespace headrace::http
