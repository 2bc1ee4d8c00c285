#include "coordinator/session/worker_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/async/virtual_reactor.h"

namespace headrace {
namespace {

using testing::HasSubstr;

// The coordinator's end of a stream: the messages given are read, then nothing comes any more.
class FakeStream final : public CoordinatorStream {
 public:
  FakeStream(Reactor* reactor, std::vector<v1::WorkerMessage> messages, rpc::Peer peer,
             absl::Status* closed, std::vector<v1::CoordinatorMessage>* written)
      : never_(reactor),
        messages_(std::move(messages)),
        peer_(std::move(peer)),
        closed_(closed),
        written_(written) {}

  Task<std::optional<v1::WorkerMessage>> Read(StopToken stop) override {
    if (next_ < messages_.size()) co_return messages_[next_++];
    co_await never_.Wait(stop);
    co_return std::nullopt;
  }
  Task<bool> Write(v1::CoordinatorMessage message) override {
    written_->push_back(std::move(message));
    co_return true;
  }
  Task<void> Close(absl::Status status) override {
    *closed_ = std::move(status);
    co_return;
  }
  absl::Status status() const override { return absl::OkStatus(); }
  const rpc::Peer& peer() const override { return peer_; }

 private:
  Event never_;
  const std::vector<v1::WorkerMessage> messages_;
  size_t next_ = 0;
  const rpc::Peer peer_;
  absl::Status* const closed_;
  std::vector<v1::CoordinatorMessage>* const written_;
};

class NoHost final : public SessionHost {
 public:
  void OnSessionOpen(WorkerSession*, const v1::Hello&) override { ++opened; }
  void OnCredits(WorkerSession*) override {}
  void OnResults(WorkerSession*, v1::Results) override {}
  void OnBeat(WorkerSession*, const v1::Beat&) override {}
  void OnBye(WorkerSession*, const v1::Bye&) override {}
  void OnSessionClosed(WorkerSession*) override {}

  int opened = 0;
};

v1::WorkerMessage Hello(const std::string& worker, uint32_t protocol_min = 1,
                        uint32_t protocol_max = 1) {
  v1::WorkerMessage message;
  message.mutable_hello()->set_worker_id(worker);
  message.mutable_hello()->set_protocol_min(protocol_min);
  message.mutable_hello()->set_protocol_max(protocol_max);
  return message;
}

struct Outcome {
  absl::Status closed = absl::InternalError("never closed");
  std::vector<v1::CoordinatorMessage> written;
  int opened = 0;
  absl::Duration took;
};

Outcome RunSession(std::vector<v1::WorkerMessage> messages, rpc::Peer peer = {}) {
  VirtualReactor reactor;
  Outcome outcome;
  NoHost host;
  SessionOptions options;
  options.silence = absl::Seconds(60);
  const MonoTime begun = reactor.Now();
  {
    WorkerSession session(
        &reactor, SessionId(1),
        std::make_unique<FakeStream>(&reactor, std::move(messages), std::move(peer),
                                     &outcome.closed, &outcome.written),
        options, &host);
    reactor.Run(session.Run(StopToken()));
  }
  outcome.took = reactor.Now() - begun;
  outcome.opened = host.opened;
  return outcome;
}

TEST(WorkerSession, AWorkerOfAnotherVersionIsRefusedWithBothVersionsInWords) {
  const std::vector<std::pair<uint32_t, uint32_t>> strangers = {{2, 3}, {0, 0}};
  for (const auto& [low, high] : strangers) {
    const Outcome outcome = RunSession({Hello("w1", low, high)});
    EXPECT_EQ(outcome.closed.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(outcome.closed.message()),
                HasSubstr("w1 speaks session protocol " + std::to_string(low) + "-" +
                          std::to_string(high) + ", this coordinator 1-1: upgrade the older"));
    EXPECT_EQ(outcome.opened, 0);
    EXPECT_TRUE(outcome.written.empty());
  }
}

TEST(WorkerSession, AWorkerThatSpeaksMoreVersionsIsWelcomedWithTheCommonOne) {
  const Outcome outcome = RunSession({Hello("w1", 1, 9)});
  EXPECT_EQ(outcome.opened, 1);
  ASSERT_FALSE(outcome.written.empty());
  EXPECT_EQ(outcome.written[0].welcome().protocol(), 1u);
}

TEST(WorkerSession, AWorkerUnderTheNameOfAnotherCertificateIsRefused) {
  rpc::Peer peer;
  peer.verified = true;
  peer.names = {"w1"};
  const Outcome outcome = RunSession({Hello("w2")}, peer);
  EXPECT_EQ(outcome.closed.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(outcome.closed.message()), HasSubstr("calls itself w2"));
  EXPECT_EQ(outcome.opened, 0);
  EXPECT_EQ(RunSession({Hello("w1")}, peer).opened, 1);
}

TEST(WorkerSession, AStreamOnWhichNoHelloComesIsEnded) {
  const Outcome outcome = RunSession({});
  EXPECT_FALSE(outcome.closed.ok());
  EXPECT_EQ(outcome.opened, 0);
  EXPECT_LE(outcome.took, absl::Seconds(61));
}

TEST(WorkerSession, AFirstMessageThatIsNoHelloIsRefused) {
  v1::WorkerMessage beat;
  beat.mutable_beat();
  const Outcome outcome = RunSession({beat});
  EXPECT_EQ(outcome.closed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(outcome.opened, 0);
}

}  // namespace
}  // namespace headrace
