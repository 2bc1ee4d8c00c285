// gRPC's callback API as MessageStreams. gRPC calls its reactors on threads of its own; each
// callback only posts a small event to our loop, and every Start* call is made from the loop
// thread.
#ifndef HEADRACE_COMMON_RPC_GRPC_STREAM_H_
#define HEADRACE_COMMON_RPC_GRPC_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/wait.h"
#include "common/rpc/message_stream.h"

namespace headrace::rpc {

// The same code; a message about TLS begins with what it means.
absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

// What both ends share: one read and one write under way at most; the next read is started only
// when the last message was taken, so a slow reader slows the peer down through HTTP/2 flow
// control. `Transport` is the gRPC reactor class and starts the operations.
template <typename Out, typename In>
class StreamState {
 public:
  explicit StreamState(Reactor* reactor)
      : reactor_(reactor), readable_(reactor), writable_(reactor), done_(reactor) {
    writable_.Set();
  }

  Reactor* reactor() { return reactor_; }
  In* read_slot() { return &in_; }
  const Out* write_slot() const { return &out_; }

  void OnRead(bool ok) {
    reading_ = false;
    ok ? void(has_message_ = true) : void(ended_ = true);
    readable_.Set();
  }
  void OnWritten(bool ok) {
    if (!ok) broken_ = true;
    writable_.Set();
  }
  void OnDone(absl::Status status) {
    status_ = std::move(status);
    ended_ = broken_ = true;
    readable_.Set();
    writable_.Set();
    done_.Set();
  }
  void MarkClosing() {
    ended_ = broken_ = true;
    readable_.Set();
    writable_.Set();
  }

  template <typename Transport>
  Task<std::optional<In>> Read(Transport* transport, StopToken stop) {
    if (!has_message_ && !reading_ && !ended_) {
      reading_ = true;
      readable_.Reset();
      transport->BeginRead(&in_);
    }
    co_await readable_.Wait(stop);
    if (!has_message_) co_return std::nullopt;
    has_message_ = false;
    readable_.Reset();
    if (ended_) readable_.Set();
    co_return std::move(in_);
  }

  template <typename Transport>
  Task<bool> Write(Transport* transport, Out message) {
    co_await writable_.Wait(StopToken());
    if (broken_) co_return false;
    out_ = std::move(message);
    writable_.Reset();
    transport->BeginWrite(&out_);
    co_await writable_.Wait(StopToken());
    co_return !broken_;
  }

  // No more messages will come.
  bool ended() const { return ended_ && !has_message_; }
  Event& done() { return done_; }
  const absl::Status& status() const { return status_; }

 private:
  Reactor* const reactor_;
  In in_;
  Out out_;
  bool reading_ = false;
  bool has_message_ = false;
  bool ended_ = false;
  bool broken_ = false;
  Event readable_;
  Event writable_;
  Event done_;
  absl::Status status_;
};

// The client end. Open() starts the call.
template <typename Out, typename In>
class GrpcClientStream final : public MessageStream<Out, In>,
                               private grpc::ClientBidiReactor<Out, In> {
 public:
  using Base = grpc::ClientBidiReactor<Out, In>;
  // Starts the call: stub->async()->Method(context, reactor).
  using Starter = absl::AnyInvocable<void(grpc::ClientContext*, Base*)>;

  GrpcClientStream(Reactor* reactor, Starter starter) : state_(reactor) {
    starter(&context_, this);
    // Operations are started from outside gRPC's callbacks for as long as the stream lives.
    Base::AddHold();
    Base::StartCall();
  }
  ~GrpcClientStream() override {
    HR_CHECK(state_.done().is_set()) << "a client stream was destroyed before Close() ended";
  }

  Task<std::optional<In>> Read(StopToken stop) override {
    std::optional<In> message = co_await state_.Read(this, stop);
    if (!message.has_value() && state_.ended()) co_await End();
    co_return message;
  }
  Task<bool> Write(Out message) override {
    const bool sent = co_await state_.Write(this, std::move(message));
    if (!sent) co_await End();
    co_return sent;
  }
  Task<void> Close(absl::Status status) override {
    context_.TryCancel();
    LetGo();
    co_await state_.done().Wait(StopToken());
  }
  absl::Status status() const override { return state_.status(); }

  void BeginRead(In* in) { Base::StartRead(in); }
  void BeginWrite(const Out* out) { Base::StartWrite(out); }

 private:
  // The peer's status is on its way when its last message has come; gRPC can hold it up behind a
  // write that nobody takes any more. Chosen, not measured.
  static constexpr absl::Duration kStatusWait = absl::Seconds(2);

  // The stream is over: waits for the status that says why. gRPC tells it only to those who start
  // nothing more.
  Task<void> End() {
    LetGo();
    DeadlineSource patience(state_.reactor(), state_.reactor()->Now() + kStatusWait, StopToken());
    const bool told = co_await state_.done().Wait(patience.token());
    if (told) co_return;
    context_.TryCancel();
    co_await state_.done().Wait(StopToken());
  }
  // From here on nothing is started, and gRPC may end the call.
  void LetGo() {
    if (std::exchange(let_go_, true)) return;
    state_.MarkClosing();
    Base::RemoveHold();
  }

  void OnReadDone(bool ok) override {
    state_.reactor()->Post([this, ok] { state_.OnRead(ok); });
  }
  void OnWriteDone(bool ok) override {
    state_.reactor()->Post([this, ok] { state_.OnWritten(ok); });
  }
  void OnDone(const grpc::Status& status) override {
    state_.reactor()->Post([this, s = FromGrpc(status)] { state_.OnDone(s); });
  }

  grpc::ClientContext context_;
  bool let_go_ = false;
  StreamState<Out, In> state_;
};

// The server end. Made by a service method on a gRPC thread and handed to the loop by Post; OnDone
// may come before the loop has seen it.
template <typename Out, typename In>
class GrpcServerStream final : public MessageStream<Out, In>,
                               public grpc::ServerBidiReactor<In, Out> {
 public:
  using Base = grpc::ServerBidiReactor<In, Out>;

  GrpcServerStream(Reactor* reactor, Peer peer) : peer_(std::move(peer)), state_(reactor) {}
  ~GrpcServerStream() override {
    HR_CHECK(state_.done().is_set()) << "a server stream was destroyed before Close() ended";
  }

  Task<std::optional<In>> Read(StopToken stop) override { return state_.Read(this, stop); }
  Task<bool> Write(Out message) override { return state_.Write(this, std::move(message)); }
  Task<void> Close(absl::Status status) override {
    state_.MarkClosing();
    FinishOnce(status);
    co_await state_.done().Wait(StopToken());
  }
  absl::Status status() const override { return state_.status(); }
  const Peer& peer() const override { return peer_; }

  void BeginRead(In* in) { Base::StartRead(in); }
  void BeginWrite(const Out* out) { Base::StartWrite(out); }

 private:
  // gRPC's Shutdown never returns when one reactor forgets to finish, and finishing twice crashes.
  void FinishOnce(const absl::Status& status) {
    if (!std::exchange(finished_, true)) Base::Finish(ToGrpc(status));
  }
  void OnReadDone(bool ok) override {
    state_.reactor()->Post([this, ok] { state_.OnRead(ok); });
  }
  void OnWriteDone(bool ok) override {
    state_.reactor()->Post([this, ok] { state_.OnWritten(ok); });
  }
  void OnCancel() override {
    state_.reactor()->Post([this] {
      state_.MarkClosing();
      FinishOnce(absl::CancelledError("the peer is gone"));
    });
  }
  void OnDone() override {
    state_.reactor()->Post([this] { state_.OnDone(absl::OkStatus()); });
  }

  const Peer peer_;
  bool finished_ = false;
  StreamState<Out, In> state_;
};

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_GRPC_STREAM_H_
