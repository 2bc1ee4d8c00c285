// What a call and a connection need from the engine that owns them.
#ifndef HEADRACE_WORKER_HTTP_H2_HOST_H_
#define HEADRACE_WORKER_HTTP_H2_HOST_H_

#include <array>
#include <cstddef>
#include <string>

#include "common/async/reactor.h"
#include "worker/http/client.h"
#include "worker/http/h2_options.h"
#include "worker/http/read_pacer.h"

namespace headrace::http {

class H2Call;
class H2Connection;

class H2Host {
 public:
  H2Host(Reactor* reactor, ClientOptions options, H2Tuning tuning)
      : reactor_(reactor),
        options_(std::move(options)),
        tuning_(tuning),
        authority_(options_.endpoint.authority()),
        pacer_(reactor, options_.max_read_tick) {}
  virtual ~H2Host() = default;

  Reactor* reactor() const { return reactor_; }
  const ClientOptions& options() const { return options_; }
  const H2Tuning& tuning() const { return tuning_; }
  const std::string& authority() const { return authority_; }
  ReadPacer* pacer() { return &pacer_; }

  // Streams per connection that the endpoint stands now; lowered by ENHANCE_YOUR_CALM.
  virtual int stream_cap() const = 0;

  // `call`, which was surely not processed and is on no connection now, is sent again.
  virtual void Replay(H2Call* call) = 0;
  // `call` has ended; it is in no list.
  virtual void OnCallEnded(H2Call* call, bool was_waiting) = 0;
  // The connection has room for a stream, or has changed in how many it takes.
  virtual void OnRoom(H2Connection* connection) = 0;
  // The connection takes no more streams; those it has go on.
  virtual void OnDraining(H2Connection* connection) = 0;
  // The connection is closed and has no streams. It is destroyed later, never inside this call.
  virtual void OnGone(H2Connection* connection) = 0;
  // The peer said ENHANCE_YOUR_CALM.
  virtual void OnCalm() = 0;
  virtual void OnResetSent() = 0;
  virtual void OnGoAway() = 0;

  // One TLS record each (16 KB, RFC 8446 section 5.1) of scratch memory for all connections;
  // nothing in it outlives one call into a connection.
  static constexpr size_t kScratchBytes = 16 * 1024;
  std::array<char, kScratchBytes>* read_scratch() { return &read_scratch_; }
  std::array<char, kScratchBytes>* write_scratch() { return &write_scratch_; }

 private:
  Reactor* const reactor_;
  const ClientOptions options_;
  const H2Tuning tuning_;
  const std::string authority_;
  ReadPacer pacer_;
  std::array<char, kScratchBytes> read_scratch_;
  std::array<char, kScratchBytes> write_scratch_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_H2_HOST_H_
