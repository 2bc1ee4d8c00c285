#include "coordinator/cluster/coordinator.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/async/virtual_reactor.h"
#include "common/rpc/message_stream.h"

namespace headrace {
namespace {

using WorkerStream = rpc::MessageStream<v1::WorkerMessage, v1::CoordinatorMessage>;

// A worker that says hello and listens.
struct Peer {
  std::unique_ptr<WorkerStream> stream;
  std::vector<uint32_t> told;  // how many share the quotas, one after the other
};

Task<void> Listen(Peer* peer, std::string name, StopToken stop) {
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_worker_id(name);
  hello.mutable_hello()->set_boot_nonce("n");
  hello.mutable_hello()->set_protocol_min(1);
  hello.mutable_hello()->set_protocol_max(1);
  hello.mutable_hello()->set_next_chunk(1);
  hello.mutable_hello()->set_first_unacked_chunk(1);
  const bool sent = co_await peer->stream->Write(std::move(hello));
  EXPECT_TRUE(sent);
  while (true) {
    std::optional<v1::CoordinatorMessage> message = co_await peer->stream->Read(stop);
    if (!message.has_value()) break;
    if (message->has_sharers()) peer->told.push_back(message->sharers().workers());
  }
  co_await peer->stream->Close(absl::OkStatus());
}

Task<void> JoinTogether(Reactor* reactor, Coordinator* coordinator, std::vector<Peer>* peers) {
  TaskScope scope(reactor, StopToken());
  for (size_t i = 0; i < peers->size(); ++i) {
    auto [there, back] =
        rpc::MakeMemoryStreams<v1::WorkerMessage, v1::CoordinatorMessage>(reactor, 4);
    (*peers)[i].stream = std::move(there);
    coordinator->AddStream(std::move(back));
    scope.Spawn(Listen(&(*peers)[i], absl::StrCat("w", i), scope.token()));
  }
  Sleep settle(reactor, absl::Milliseconds(500), StopToken());
  co_await settle;
  scope.RequestStop({StopCode::kOwnerDone, ""});
  co_await coordinator->Shutdown();
  co_await scope.Join();
}

// Each was told of every other, half a million messages for a thousand workers.
TEST(Coordinator, WorkersThatJoinTogetherAreNotToldOfEachOtherOneByOne) {
  VirtualReactor reactor;
  Coordinator coordinator(&reactor, SessionOptions{});
  std::vector<Peer> peers(200);
  reactor.Run(JoinTogether(&reactor, &coordinator, &peers));
  for (const Peer& peer : peers) {
    ASSERT_FALSE(peer.told.empty());
    EXPECT_EQ(peer.told.back(), peers.size());
    EXPECT_LE(peer.told.size(), 2u) << "at its start, and when all had come";
  }
}

}  // namespace
}  // namespace headrace
