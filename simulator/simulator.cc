#include "simulator/simulator.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace headrace::simulator {
namespace {

constexpr int kBacklog = 4096;
// Connections accepted per turn and listener; the rest waits in the kernel.
constexpr int kMaxAcceptsPerTurn = 64;
// How long a listener rests when the process is out of file descriptors.
constexpr absl::Duration kAcceptRest = absl::Milliseconds(100);

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

bool MakeAddress(const std::string& text, int port, Address* address) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address->storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    address->size = sizeof(*v4);
    return true;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address->storage);
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<uint16_t>(port));
  address->size = sizeof(*v6);
  return true;
}

}  // namespace

// Accepts on one socket.
class Simulator::Listener final : public FdHandler {
 public:
  Listener(Simulator* simulator, int fd, SSL_CTX* tls)
      : simulator_(simulator), fd_(fd), tls_(tls) {}
  ~Listener() override {
    simulator_->reactor_->Cancel(&rest_);
    if (watched_) simulator_->reactor_->Unwatch(fd_);
    close(fd_);
  }

  absl::Status Watch() {
    absl::Status status = simulator_->reactor_->Watch(fd_, EPOLLIN, this);
    watched_ = status.ok();
    return status;
  }

 private:
  void OnFdReady(uint32_t) override {
    for (int i = 0; i < kMaxAcceptsPerTurn; ++i) {
      const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        simulator_->Accepted(fd, tls_);
        continue;
      }
      if (errno == EMFILE || errno == ENFILE) {
        HR_LOG(kWarning) << "simulator: out of file descriptors, accepting again in "
                         << absl::FormatDuration(kAcceptRest);
        simulator_->reactor_->Unwatch(fd_);
        watched_ = false;
        simulator_->reactor_->Arm(
            &rest_, simulator_->reactor_->Now() + kAcceptRest,
            [](void* self) { static_cast<Listener*>(self)->Watch().IgnoreError(); }, this);
      }
      return;
    }
  }

  Simulator* const simulator_;
  const int fd_;
  SSL_CTX* const tls_;
  bool watched_ = false;
  Timer rest_;
};

Simulator::Simulator(Reactor* reactor, SimulatorOptions options)
    : reactor_(reactor), options_(std::move(options)) {}

Simulator::~Simulator() { Stop(); }

absl::Status Simulator::Start() {
  HR_CHECK(service_ == nullptr) << "the simulator was started already";
  HR_RETURN_IF_ERROR(ValidateOptions(options_));
  if (options_.tls_port >= 0) {
    absl::StatusOr<SslCtx> tls =
        options_.cert_file.empty() ? ServerContextSelfSigned(&ca_pem_)
                                   : ServerContextFromFiles(options_.cert_file, options_.key_file);
    if (!tls.ok()) return tls.status();
    tls_ = std::move(*tls);
    HR_RETURN_IF_ERROR(WriteCa());
  }
  service_ = std::make_unique<Service>(reactor_, options_);
  absl::Status status;
  if (options_.port >= 0) status = Listen(options_.port, nullptr, &ports_.plain);
  if (status.ok() && options_.tls_port >= 0) {
    status = Listen(options_.tls_port, tls_.get(), &ports_.tls);
  }
  if (!status.ok()) Stop();
  return status;
}

absl::Status Simulator::WriteCa() const {
  if (options_.ca_out_file.empty() || ca_pem_.empty()) return absl::OkStatus();
  std::ofstream file(options_.ca_out_file);
  file << ca_pem_;
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write the CA to ", options_.ca_out_file));
}

void Simulator::Stop() {
  listeners_.clear();
  connections_.clear();
  service_.reset();
}

absl::Status Simulator::Listen(int port, SSL_CTX* tls, int* bound_port) {
  Address address;
  if (!MakeAddress(options_.listen_address, port, &address)) {
    return absl::InvalidArgumentError(absl::StrCat("listen address \"", options_.listen_address,
                                                   "\" is no IPv4 or IPv6 address"));
  }
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  listeners_.push_back(std::make_unique<Listener>(this, fd, tls));  // owns fd from here
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  auto* raw = reinterpret_cast<sockaddr*>(&address.storage);
  const std::string where = absl::StrCat(options_.listen_address, ":", port);
  if (bind(fd, raw, address.size) != 0) return ErrnoStatus(errno, absl::StrCat("bind ", where));
  if (listen(fd, kBacklog) != 0) return ErrnoStatus(errno, absl::StrCat("listen ", where));
  if (getsockname(fd, raw, &address.size) != 0) return ErrnoStatus(errno, "getsockname");
  *bound_port = ntohs(address.storage.ss_family == AF_INET
                          ? reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port
                          : reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port);
  return listeners_.back()->Watch();
}

void Simulator::Accepted(int fd, SSL_CTX* tls) {
  if (connections_.size() >= static_cast<size_t>(options_.max_connections)) {
    close(fd);
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ConnectionOwner* const owner = this;
  auto connection = std::make_unique<Connection>(reactor_, service_.get(), owner, fd, tls);
  Connection* const key = connection.get();
  if (key->Start().ok()) connections_.emplace(key, std::move(connection));
}

void Simulator::Remove(Connection* connection) { connections_.erase(connection); }

headrace::simulator::Truth Simulator::Truth() const {
  return service_ == nullptr ? headrace::simulator::Truth{} : service_->truth().Snapshot();
}

void Simulator::ResetTruth() {
  if (service_ != nullptr) service_->truth().Reset(reactor_->Now());
}

// ------------------------------------------------------------------------------------ thread

absl::StatusOr<std::unique_ptr<SimulatorThread>> SimulatorThread::Start(SimulatorOptions options) {
  std::unique_ptr<SimulatorThread> self(new SimulatorThread);
  HR_ASSIGN_OR_RETURN(self->reactor_, EpollReactor::Make());
  self->simulator_ = std::make_unique<Simulator>(self->reactor_.get(), std::move(options));
  self->stop_ = std::make_unique<Event>(self->reactor_.get());
  // Listening before the thread runs: a connection that comes early waits in the kernel.
  absl::Status status = self->simulator_->Start();
  if (!status.ok()) return status;
  self->ports_ = self->simulator_->ports();
  self->ca_pem_ = self->simulator_->ca_pem();
  self->thread_ = std::thread([raw = self.get()] { raw->reactor_->Run(raw->Main()); });
  return self;
}

Task<void> SimulatorThread::Main() {
  co_await stop_->Wait(StopToken());
  simulator_->Stop();
}

SimulatorThread::~SimulatorThread() {
  if (thread_.joinable()) {
    reactor_->Post([this] { stop_->Set(); });
    thread_.join();
  }
  simulator_.reset();
}

void SimulatorThread::RunThere(absl::AnyInvocable<void(Simulator&)> function) {
  absl::Notification done;
  reactor_->Post([&] {
    function(*simulator_);
    done.Notify();
  });
  done.WaitForNotification();
}

headrace::simulator::Truth SimulatorThread::Truth() {
  headrace::simulator::Truth truth;
  RunThere([&](Simulator& simulator) { truth = simulator.Truth(); });
  return truth;
}

void SimulatorThread::ResetTruth() {
  RunThere([](Simulator& simulator) { simulator.ResetTruth(); });
}

std::string SimulatorThread::plain_url() const {
  return absl::StrCat("http://127.0.0.1:", ports_.plain, "/v1");
}

std::string SimulatorThread::tls_url() const {
  return absl::StrCat("https://127.0.0.1:", ports_.tls, "/v1");
}

}  // namespace headrace::simulator
