#include "common/quota/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

using Kind = Ticket::Kind;

struct Sent {
  int tag = 0;
  Ticket ticket;
  MonoTime at;
};

// Asks, notes the answer, and holds what was admitted for `hold` before settling it.
Task<void> Attempt(Worker* worker, int tag, uint64_t job, double weight, Costs costs,
                   absl::Duration hold, std::vector<Sent>* sent, StopToken stop) {
  Ticket ticket = co_await worker->admission.Admit(job, 0, weight, costs, stop);
  sent->push_back(Sent{tag, ticket, worker->reactor.Now()});
  if (ticket.kind != Kind::kAdmitted) co_return;
  if (hold > absl::ZeroDuration()) co_await Sleep(&worker->reactor, hold, StopToken());
  worker->admission.Settle(ticket, Settlement::kCharged, ticket.reserved);
}

void SpawnMany(Worker* worker, TaskScope* scope, int count, uint64_t job, double weight,
               Costs costs, absl::Duration hold, std::vector<Sent>* sent, StopToken stop = {}) {
  for (int i = 0; i < count; ++i) {
    scope->Spawn(Attempt(worker, i, job, weight, costs, hold, sent, stop));
  }
}

Task<void> RunToEnd(Worker* worker, TaskScope* scope) {
  co_await scope->Join();
  co_await worker->admission.Shutdown();
}

std::vector<double> SecondsOf(const std::vector<Sent>& sent, MonoTime start) {
  std::vector<double> seconds;
  for (const Sent& one : sent) seconds.push_back(absl::ToDoubleSeconds(one.at - start));
  return seconds;
}

TEST(Admission, AnUnknownPoolIsAnErrorThatNamesIt) {
  VirtualReactor reactor;
  MemoryPoolStore store(&reactor, {Pool({})});
  Admission admission(&reactor, &store, "other", 1);
  Ticket ticket;
  auto main = [](Admission* a, Ticket* t) -> Task<void> {
    *t = co_await a->Admit(1, 0, 1, Tokens(1), StopToken());
    co_await a->Shutdown();
  };
  reactor.Run(main(&admission, &ticket));
  EXPECT_EQ(ticket.kind, Kind::kError);
  EXPECT_EQ(ticket.text, "no pool is named other");
}

TEST(Admission, ARequestAboveTheWholeLimitIsRefusedAtOnceWithTheNumbers) {
  Worker worker(Pool({PerMinute(Dimension::kTokens, 30'000)}));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 1, 1, 1, Tokens(34'307), absl::ZeroDuration(), &sent);
  worker.reactor.Run(RunToEnd(&worker, &scope));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ticket.kind, Kind::kNeverFits);
  EXPECT_EQ(sent[0].ticket.text, "needs 34307 tokens/min, but the limit of pool p is 30000");
}

TEST(Admission, AnAlreadyStoppedAttemptTakesNothing) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 60)}));
  StopSource stop;
  stop.RequestStop(StopCode::kUser);
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 1, 1, 1, Tokens(1), absl::ZeroDuration(), &sent, stop.token());
  worker.reactor.Run(RunToEnd(&worker, &scope));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ticket.kind, Kind::kStopped);
  EXPECT_EQ(worker.admission.Snapshot().charged_last_minute, Costs{});
}

TEST(Admission, SendsArePacedInTheOrderOfAsking) {
  // 600 a minute is one per 100 ms; the burst of 250 ms lets three go at once.
  Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
  const MonoTime start = worker.reactor.Now();
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 100, 1, 1, Tokens(1), absl::ZeroDuration(), &sent);
  worker.reactor.Run(RunToEnd(&worker, &scope));
  ASSERT_EQ(sent.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(sent[i].tag, i);
    EXPECT_EQ(sent[i].ticket.kind, Kind::kAdmitted);
    const double due = i < 3 ? 0 : 0.1 * i - 0.25;
    EXPECT_NEAR(SecondsOf(sent, start)[i], due, 0.002) << i;
  }
  EXPECT_EQ(worker.admission.rebooked(), 0);
  EXPECT_EQ(worker.admission.waiting(), 0);
}

TEST(Admission, UnlimitedPoolsNeverSuspend) {
  Worker worker(Pool({}));
  uint64_t steps_before = 0;
  uint64_t steps_after = 0;
  auto main = [](Worker* w, uint64_t* before, uint64_t* after) -> Task<void> {
    *before = w->reactor.steps();
    std::vector<Ticket> tickets;
    for (int i = 0; i < 10'000; ++i) {
      Ticket ticket = co_await w->admission.Admit(i % 7, i % 3, 1, Tokens(1000), StopToken());
      EXPECT_EQ(ticket.kind, Kind::kAdmitted);
      tickets.push_back(ticket);
    }
    *after = w->reactor.steps();
    EXPECT_EQ(w->admission.Snapshot().in_flight, 10'000);
    for (const Ticket& ticket : tickets) {
      w->admission.Settle(ticket, Settlement::kCharged, Tokens(1000));
    }
    EXPECT_EQ(w->admission.Snapshot().in_flight, 0);
  };
  worker.reactor.Run(main(&worker, &steps_before, &steps_after));
  EXPECT_EQ(steps_before, steps_after);
}

TEST(Admission, AFreedSlotWakesTheNextWaiterInTheSameInstant) {
  Worker worker(Pool({Slots(2)}));
  const MonoTime start = worker.reactor.Now();
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 10, 1, 1, Tokens(1), absl::Seconds(3), &sent);
  worker.reactor.Run(RunToEnd(&worker, &scope));
  EXPECT_EQ(SecondsOf(sent, start), (std::vector<double>{0, 0, 3, 3, 6, 6, 9, 9, 12, 12}));
  EXPECT_EQ(worker.admission.Snapshot().in_flight, 0);
}

}  // namespace
}  // namespace headrace::quota
