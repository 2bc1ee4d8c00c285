// One accepted connection: the socket, TLS, the choice of protocol, and gathered writes. What is
// said on it is a Session's: H1Session or H2Session.
#ifndef HEADRACE_SIMULATOR_CONNECTION_H_
#define HEADRACE_SIMULATOR_CONNECTION_H_

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/async/reactor.h"
#include "simulator/exchange.h"
#include "simulator/service.h"

namespace headrace::simulator {

class Connection;

// One protocol on one connection.
class Session {
 public:
  virtual ~Session() = default;
  // Takes what the peer sent. False when it broke the protocol: what is buffered is still written,
  // then the connection closes.
  virtual bool Receive(absl::string_view bytes) = 0;
  // Appends what is ready to be sent, until *out has about `limit` bytes.
  virtual void Produce(std::string* out, size_t limit) = 0;
  // Nothing is left to say or to hear: close when all is written.
  virtual bool Ended() const = 0;
  // The connection is gone; all calls end.
  virtual void PeerGone(Gone how) = 0;
};

// Owns a connection and destroys it when told.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void Remove(Connection* connection) = 0;
};

class Connection final : public FdHandler, public EndOfTurn {
 public:
  // Takes `fd` (non-blocking) and, for TLS, a context that outlives it.
  Connection(Reactor* reactor, Service* service, ConnectionOwner* owner, int fd, SSL_CTX* tls);
  ~Connection() override;

  absl::Status Start();

  // For sessions and their exchanges.
  void RequestFlush() { reactor_->RequestEndOfTurn(this); }
  // Closes after what is buffered has been written. A reset discards what the kernel still holds.
  void CloseAfterFlush(bool reset);
  Service* service() const { return service_; }
  // Notes one more request; true when it is to be the connection's last.
  bool CountRequest();

 private:
  enum class State : uint8_t { kHandshake, kDetect, kOpen, kLinger, kDead };
  enum class Io : uint8_t { kDone, kBlocked, kClosed, kBroken };

  void OnFdReady(uint32_t events) override;
  void OnEndOfTurn() override;
  static void OnMore(void* connection);
  static void OnLingerEnd(void* connection);

  void Handshake();
  void ReadSome();
  Io Read(size_t* size);
  void Take(absl::string_view bytes);
  void Open(bool h2);
  void Flush();
  // Writes out_; kDone when all of it has been written.
  Io WriteOut();
  void WatchFor(uint32_t events);
  // Sends FIN and waits for the peer's, discarding what it still sends: closing with unread bytes
  // would be a reset, which may destroy what the peer has not read yet.
  void Linger();
  void Discard();
  // Ends everything; the object is destroyed at the end of the turn.
  void Die(Gone how);

  Reactor* const reactor_;
  Service* const service_;
  ConnectionOwner* const owner_;
  const int fd_;
  SSL* ssl_ = nullptr;
  State state_;
  uint32_t watched_ = 0;
  int64_t requests_ = 0;
  bool closing_ = false;
  bool reset_ = false;
  std::string detect_;  // the first bytes, until they tell the protocol
  std::string out_;
  size_t out_sent_ = 0;
  Timer more_;    // to read on in the next turn what TLS has buffered
  Timer linger_;  // the end of lingering
  std::unique_ptr<Session> session_;
};

std::unique_ptr<Session> MakeH1Session(Connection* connection);
std::unique_ptr<Session> MakeH2Session(Connection* connection);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_CONNECTION_H_
