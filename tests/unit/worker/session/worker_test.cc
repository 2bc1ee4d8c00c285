// What a worker does with messages that come late, twice or of a lease that is over. Its
// coordinator is a script of messages and their times.
#include "worker/session/worker.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "common/async/virtual_reactor.h"
#include "tests/support/fake_provider.h"

namespace headrace {
namespace {

struct Timed {
  absl::Duration at;  // after the start, in order
  v1::CoordinatorMessage message;
};

class ScriptedStream final : public WorkerStream {
 public:
  ScriptedStream(Reactor* reactor, std::vector<Timed> script)
      : reactor_(reactor), begun_(reactor->Now()), script_(script.begin(), script.end()) {}

  Task<std::optional<v1::CoordinatorMessage>> Read(StopToken stop) override {
    const MonoTime due = script_.empty() ? MonoTime::Max() : begun_ + script_.front().at;
    Sleep wait(reactor_, due, stop);
    const bool waited = co_await wait;
    if (!waited) co_return std::nullopt;
    v1::CoordinatorMessage message = std::move(script_.front().message);
    script_.pop_front();
    co_return message;
  }
  Task<bool> Write(v1::WorkerMessage message) override {
    for (const v1::BatchDone& done : message.results().done()) ended.push_back(done);
    for (const v1::ModelWant& want : message.want().models()) wanted = want.items_total();
    co_return true;
  }
  Task<void> Close(absl::Status) override { co_return; }
  absl::Status status() const override { return absl::OkStatus(); }

  std::vector<v1::BatchDone> ended;
  uint64_t wanted = 0;  // as last said

 private:
  Reactor* const reactor_;
  const MonoTime begun_;
  std::deque<Timed> script_;
};

v1::CoordinatorMessage Welcome() {
  v1::CoordinatorMessage message;
  message.mutable_welcome()->set_protocol(1);
  message.mutable_welcome()->set_lease_ms(60'000);
  message.mutable_welcome()->set_beat_ms(1000);
  return message;
}

v1::CoordinatorMessage Job(int64_t tokens_per_minute = 0) {
  v1::CoordinatorMessage message;
  v1::JobSpec* job = message.mutable_job();
  job->set_job_id(1);
  job->set_attempts(1);
  job->set_batch_deadline_ms(600'000);
  job->add_pools()->set_name("pool");
  job->mutable_pools(0)->set_tokens_per_minute(tokens_per_minute);
  v1::ModelSpec* model = job->add_models();
  model->set_name("model-0");
  model->set_label("model-0");
  model->set_provider("openai");
  model->set_endpoint("http://provider/v1");
  model->set_pool("pool");
  model->set_params_json("{}");
  model->set_weight(1);
  model->set_total_timeout_ms(60'000);
  return message;
}

v1::CoordinatorMessage Grant(uint32_t epoch, int items, uint32_t ttl_ms = 60'000) {
  v1::CoordinatorMessage message;
  v1::Grant* grant = message.mutable_grant();
  grant->set_job_id(1);
  grant->set_batch_id(7);
  grant->set_epoch(epoch);
  grant->set_ttl_ms(ttl_ms);
  grant->set_beat(1);
  for (int i = 0; i < items; ++i) {
    v1::Item* item = grant->add_items();
    item->set_item(static_cast<uint64_t>(i));
    item->set_user("question");
  }
  return message;
}

v1::CoordinatorMessage Cancel(uint32_t epoch) {
  v1::CoordinatorMessage message;
  message.mutable_cancel()->set_job_id(1);
  message.mutable_cancel()->set_batch_id(7);
  message.mutable_cancel()->set_epoch(epoch);
  message.mutable_cancel()->set_stop_code(static_cast<uint32_t>(StopCode::kLeaseLost));
  return message;
}

struct Outcome {
  int calls = 0;
  int answered = 0;
  std::vector<v1::BatchDone> ended;
  uint64_t wanted = 0;
};

Task<void> Serve(VirtualReactor* reactor, Worker* worker, ScriptedStream* stream) {
  DeadlineSource end(reactor, reactor->Now() + absl::Seconds(30), StopToken());
  Task<absl::Status> session = worker->Serve(stream, StopToken(), end.token());
  const absl::Status status = co_await session;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  co_await worker->Shutdown();
}

// By default one call at a time; each lasts `latency`.
Outcome Play(absl::Duration latency, std::vector<Timed> script, int64_t max_in_flight = 1) {
  VirtualReactor reactor;
  Weather weather;
  weather.latency = {latency, latency};
  FakeProvider provider(&reactor, 1, weather);
  FakeEnvironment environment(&reactor, &provider);
  WorkerOptions options;
  options.max_in_flight = max_in_flight;
  Worker worker(&reactor, options, &environment);
  script.insert(script.begin(), {absl::ZeroDuration(), Welcome()});
  ScriptedStream stream(&reactor, std::move(script));
  reactor.Run(Serve(&reactor, &worker, &stream));
  return {provider.calls, provider.answered_ok, std::move(stream.ended), stream.wanted};
}

TEST(Worker, ACancelOfAnOlderEpochLeavesTheNewerOneAlone) {
  const Outcome outcome = Play(absl::Seconds(10), {{absl::ZeroDuration(), Job()},
                                                   {absl::ZeroDuration(), Grant(1, 1)},
                                                   {absl::Seconds(1), Grant(2, 1)},
                                                   {absl::Seconds(2), Cancel(1)}});
  EXPECT_EQ(outcome.calls, 1);
  EXPECT_EQ(outcome.answered, 1);
  ASSERT_EQ(outcome.ended.size(), 1u);
  EXPECT_EQ(outcome.ended[0].epoch(), 2u);
}

TEST(Worker, ACancelOfThisEpochEndsTheCall) {
  const Outcome outcome = Play(absl::Seconds(10), {{absl::ZeroDuration(), Job()},
                                                   {absl::ZeroDuration(), Grant(1, 1)},
                                                   {absl::Seconds(2), Cancel(1)}});
  EXPECT_EQ(outcome.calls, 1);
  EXPECT_EQ(outcome.answered, 0);
  ASSERT_EQ(outcome.ended.size(), 1u);
}

TEST(Worker, AGrantThatComesAgainAfterTheEndOfItsBatchIsNotRunAgain) {
  const Outcome outcome = Play(absl::Seconds(1), {{absl::ZeroDuration(), Job()},
                                                  {absl::ZeroDuration(), Grant(1, 2)},
                                                  {absl::Seconds(5), Grant(1, 2)}});
  EXPECT_EQ(outcome.calls, 2);
}

TEST(Worker, AGrantThatWasGivenBackForWantOfItsJobIsNotRunWhenItComesAgain) {
  const Outcome outcome = Play(absl::Seconds(1), {{absl::ZeroDuration(), Grant(1, 2)},
                                                  {absl::Seconds(1), Job()},
                                                  {absl::Seconds(2), Grant(1, 2)}});
  EXPECT_EQ(outcome.calls, 0);
  ASSERT_EQ(outcome.ended.size(), 1u);
  EXPECT_EQ(outcome.ended[0].not_started_size(), 2);
}

TEST(Worker, ALeaseRunsFromTheBeatThatIsAnsweredAndNotFromTheAnswer) {
  // Of the hello, on its way for 4.5 s: the lease ends 5 s after the hello all the same.
  v1::CoordinatorMessage renewal;
  v1::Renew* renew = renewal.mutable_renew();
  renew->set_ttl_ms(5000);
  renew->set_beat(1);
  renew->add_held()->set_job_id(1);
  renew->mutable_held(0)->set_batch_id(7);
  renew->mutable_held(0)->set_epoch(1);
  const Outcome outcome = Play(absl::Seconds(4), {{absl::ZeroDuration(), Job()},
                                                  {absl::ZeroDuration(), Grant(1, 3, 5000)},
                                                  {absl::Milliseconds(4500), renewal}});
  EXPECT_EQ(outcome.calls, 2) << "the third would start 8 s after the hello";
  EXPECT_EQ(outcome.answered, 2) << "a call under way may end";
}

// The first of four workers once took a whole job, which it could not send, and the others idled.
TEST(Worker, ANewWorkerTakesNoMoreOfALimitedPoolThanGoesOutSoon) {
  const Outcome limited =
      Play(absl::Seconds(1), {{absl::ZeroDuration(), Job(/*tokens_per_minute=*/60'000)}}, 2500);
  EXPECT_GE(limited.wanted, 20u);  // 4 s of calls of 200 tokens
  EXPECT_LE(limited.wanted, 50u);
  const Outcome unlimited = Play(absl::Seconds(1), {{absl::ZeroDuration(), Job()}}, 2500);
  EXPECT_GE(unlimited.wanted, 2500u);
}

}  // namespace
}  // namespace headrace
