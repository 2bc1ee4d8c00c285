// A worker's results and the limits of its sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "tests/support/fake_provider.h"
#include "worker/session/worker.h"

namespace headrace {
namespace {

using CoordinatorEnd = rpc::MessageStream<v1::CoordinatorMessage, v1::WorkerMessage>;

// Welcomes, gives one item when `grant`, and ends with the first results, which it does not
// acknowledge.
Task<void> Coordinate(CoordinatorEnd* stream, uint64_t max_chunk_bytes, bool grant) {
  std::optional<v1::WorkerMessage> hello = co_await stream->Read(StopToken());
  EXPECT_TRUE(hello.has_value() && hello->has_hello());
  v1::CoordinatorMessage welcome;
  welcome.mutable_welcome()->set_protocol(1);
  welcome.mutable_welcome()->set_lease_ms(60'000);
  welcome.mutable_welcome()->set_beat_ms(1000);
  welcome.mutable_welcome()->set_max_chunk_bytes(max_chunk_bytes);
  co_await stream->Write(std::move(welcome));
  if (grant) {
    v1::CoordinatorMessage job;
    job.mutable_job()->set_job_id(1);
    job.mutable_job()->set_attempts(1);
    job.mutable_job()->set_batch_deadline_ms(60'000);
    v1::ModelSpec* model = job.mutable_job()->add_models();
    model->set_name("model-0");
    model->set_label("model-0");
    model->set_provider("openai");
    model->set_endpoint("http://provider/v1");
    model->set_pool("p");
    model->set_weight(1);
    model->set_params_json("{}");
    model->set_total_timeout_ms(60'000);
    job.mutable_job()->add_pools()->set_name("p");
    co_await stream->Write(std::move(job));
    v1::CoordinatorMessage batch;
    batch.mutable_grant()->set_job_id(1);
    batch.mutable_grant()->set_batch_id(1);
    batch.mutable_grant()->set_epoch(1);
    batch.mutable_grant()->set_pass(1);
    batch.mutable_grant()->set_ttl_ms(60'000);
    batch.mutable_grant()->add_items()->set_user("question 0 of many");
    co_await stream->Write(std::move(batch));
  }
  while (true) {
    std::optional<v1::WorkerMessage> message = co_await stream->Read(StopToken());
    if (!message.has_value()) break;
    if (!message->has_results()) continue;
    EXPECT_EQ(message->results().results_size(), 1) << message->DebugString();
    break;
  }
  co_await stream->Close(absl::OkStatus());
}

Task<absl::Status> Session(Reactor* reactor, Worker* worker, uint64_t max_chunk_bytes, bool grant) {
  auto [worker_end, coordinator_end] =
      rpc::MakeMemoryStreams<v1::WorkerMessage, v1::CoordinatorMessage>(reactor, 4);
  TaskScope scope(reactor, StopToken());
  scope.Spawn(Coordinate(coordinator_end.get(), max_chunk_bytes, grant));
  absl::Status status = co_await worker->Serve(worker_end.get(), StopToken());
  co_await worker_end->Close(absl::OkStatus());
  co_await scope.Join();
  co_return status;
}

Task<void> TwoSessions(Reactor* reactor, Worker* worker) {
  const absl::Status broken = co_await Session(reactor, worker, 1 << 20, /*grant=*/true);
  EXPECT_EQ(broken.code(), absl::StatusCode::kUnavailable) << broken;
  EXPECT_FALSE(worker->idle());
  const absl::Status refused = co_await Session(reactor, worker, 100'000, /*grant=*/false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("at most 100000 bytes"));
  co_await worker->Shutdown();
}

TEST(ResultLimit, AResultThatANewCoordinatorDoesNotTakeEndsTheWorkerInWords) {
  VirtualReactor reactor(1);
  Weather weather;
  weather.answer_bytes["question 0 "] = 200'000;
  FakeProvider provider(&reactor, 1, weather);
  FakeEnvironment environment(&reactor, &provider);
  Worker worker(&reactor, WorkerOptions{}, &environment);
  reactor.Run(TwoSessions(&reactor, &worker));
}

}  // namespace
}  // namespace headrace
