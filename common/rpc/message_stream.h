// A bidirectional stream of messages as coroutines see it. The session logic of both roles is
// written against this; gRPC (grpc_stream.h) carries it between processes and within one, and a
// pair of channels (MakeMemoryStreams) carries it in tests and simulations.
#ifndef HEADRACE_COMMON_RPC_MESSAGE_STREAM_H_
#define HEADRACE_COMMON_RPC_MESSAGE_STREAM_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/async/channel.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/rpc/peer.h"

namespace headrace::rpc {

// One end of a stream. One reader and one writer at a time. Lives on one reactor thread.
template <typename Out, typename In>
class MessageStream {
 public:
  virtual ~MessageStream() = default;

  // The next message; empty when the peer has ended, the stream broke, or `stop` was stopped. A
  // stop loses no message: a later Read gets it.
  virtual Task<std::optional<In>> Read(StopToken stop) = 0;

  // Hands `message` to the transport and waits until it takes the next. False when the stream is
  // broken or closed.
  virtual Task<bool> Write(Out message) = 0;

  // Ends the stream. `status` is what the peer of a server end sees; a client end can only cancel
  // when not OK. Must have ended before the stream is destroyed; reads and writes end by it.
  virtual Task<void> Close(absl::Status status) = 0;

  // Why the stream ended; OK while it lives and after a clean end.
  virtual absl::Status status() const = 0;

  // Who is at the other end, as a server end knows it; empty for any other.
  virtual const Peer& peer() const {
    static const Peer& nobody = *new Peer;
    return nobody;
  }
};

// Two ends joined by channels of `capacity` messages on one reactor.
template <typename A, typename B>
class MemoryStream final : public MessageStream<A, B> {
 public:
  MemoryStream(std::shared_ptr<Channel<A>> out, std::shared_ptr<Channel<B>> in)
      : out_(std::move(out)), in_(std::move(in)) {}

  Task<std::optional<B>> Read(StopToken stop) override {
    std::optional<B> message = co_await in_->Receive(stop);
    co_return message;
  }
  Task<bool> Write(A message) override {
    const bool sent = co_await out_->Send(std::move(message), StopToken());
    co_return sent;
  }
  Task<void> Close(absl::Status status) override {
    status_ = std::move(status);
    out_->Close();
    in_->Close();
    co_return;
  }
  absl::Status status() const override { return status_; }

 private:
  // Shared by the two ends: either may be destroyed first.
  std::shared_ptr<Channel<A>> out_;
  std::shared_ptr<Channel<B>> in_;
  absl::Status status_;
};

template <typename A, typename B>
std::pair<std::unique_ptr<MessageStream<A, B>>, std::unique_ptr<MessageStream<B, A>>>
MakeMemoryStreams(Reactor* reactor, size_t capacity) {
  auto there = std::make_shared<Channel<A>>(reactor, capacity);
  auto back = std::make_shared<Channel<B>>(reactor, capacity);
  return {std::make_unique<MemoryStream<A, B>>(there, back),
          std::make_unique<MemoryStream<B, A>>(back, there)};
}

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_MESSAGE_STREAM_H_
