// A provider simulator: OpenAI- and Anthropic-shaped, over HTTP/1.1, h2c (prior knowledge) and
// HTTP/2 over TLS. It enforces quotas as providers do, injects faults by name, and keeps the truth
// about what happened. `headrace simulate` is this class in a process of its own.
//
//   SimulatorOptions options;
//   options.tpm = 5'000'000;
//   Simulator simulator(reactor, options);
//   HR_RETURN_IF_ERROR(simulator.Start());
//   ... http://127.0.0.1:<simulator.ports().plain>/v1/chat/completions ...
//   simulator.Stop();
//
// Endpoints: POST /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/messages;
// GET /v1/models, GET /truth, POST /truth/reset.
// Request headers of its own, the first two also as query fields: x-sim-fault: NAME (this fault,
// surely), x-sim-barrier: N (hold the call until N are in flight), x-headrace-item: ID (identity
// for repeats; else the body's hash).
#ifndef HEADRACE_SIMULATOR_SIMULATOR_H_
#define HEADRACE_SIMULATOR_SIMULATOR_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/async/epoll_reactor.h"
#include "common/async/reactor.h"
#include "common/async/wait.h"
#include "simulator/connection.h"
#include "simulator/options.h"
#include "simulator/tls.h"
#include "simulator/truth.h"

namespace headrace::simulator {

// The ports in use; 0 where there is none.
struct Ports {
  int plain = 0;  // HTTP/1.1 and h2c
  int tls = 0;    // h2 and http/1.1
};

// All on one reactor thread, which must be an EpollReactor's.
class Simulator final : private ConnectionOwner {
 public:
  Simulator(Reactor* reactor, SimulatorOptions options);
  // Stops.
  ~Simulator() override;

  // Listens. InvalidArgument for bad options or certificates; what bind(2) says otherwise.
  absl::Status Start();
  // Closes everything at once, answers in flight included. Idempotent. Not from a callback of ours.
  void Stop();

  Ports ports() const { return ports_; }
  // The CA that signed the certificate made in memory; empty when files are used or TLS is off.
  const std::string& ca_pem() const { return ca_pem_; }
  headrace::simulator::Truth Truth() const;
  void ResetTruth();

 private:
  class Listener;

  void Remove(Connection* connection) override;
  // For the start only: it blocks.
  absl::Status WriteCa() const;
  absl::Status Listen(int port, SSL_CTX* tls, int* bound_port);
  void Accepted(int fd, SSL_CTX* tls);

  Reactor* const reactor_;
  const SimulatorOptions options_;
  Ports ports_;
  std::string ca_pem_;
  SslCtx tls_;
  std::unique_ptr<Service> service_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  absl::flat_hash_map<Connection*, std::unique_ptr<Connection>> connections_;
};

// A simulator on a thread and reactor of its own, for tests and benchmarks in one process. All
// methods may be called from any other thread.
class SimulatorThread {
 public:
  // Starts it; the errors of Simulator::Start().
  static absl::StatusOr<std::unique_ptr<SimulatorThread>> Start(SimulatorOptions options);
  // Stops and joins.
  ~SimulatorThread();

  Ports ports() const { return ports_; }
  const std::string& ca_pem() const { return ca_pem_; }
  // "http://127.0.0.1:PORT/v1" and "https://127.0.0.1:PORT/v1".
  std::string plain_url() const;
  std::string tls_url() const;
  headrace::simulator::Truth Truth();
  void ResetTruth();

 private:
  SimulatorThread() = default;
  // Runs `function` on the simulator's thread and waits for it.
  void RunThere(absl::AnyInvocable<void(Simulator&)> function);
  Task<void> Main();

  std::unique_ptr<EpollReactor> reactor_;
  std::unique_ptr<Simulator> simulator_;
  std::unique_ptr<Event> stop_;
  Ports ports_;
  std::string ca_pem_;
  std::thread thread_;
};

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_SIMULATOR_H_
