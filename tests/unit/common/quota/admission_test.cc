#include "common/quota/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

using Kind = Ticket::Kind;

std::vector<double> TimesOf(const std::vector<Sent>& sent) {
  std::vector<double> times;
  for (const Sent& one : sent) times.push_back(one.at);
  return times;
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
  for (const bool slow : {false, true}) {
    Worker worker(Pool({PerMinute(Dimension::kTokens, 30'000)}));
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 1, {.costs = Tokens(34'307), .slow = slow}, &sent);
    RunToEnd(&worker, &scope);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].ticket.kind, Kind::kNeverFits);
    EXPECT_EQ(sent[0].ticket.text, "needs 34307 tokens/min, but the limit of pool p is 30000");
  }
}

TEST(Admission, AStoreThatCannotBeReachedIsAnErrorForThoseWhoAsked) {
  Worker worker(Pool({PerMinute(Dimension::kTokens, 30'000)}));
  worker.slow.set_error(absl::UnavailableError("connection refused"));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 3, {.slow = true}, &sent);
  RunToEnd(&worker, &scope);
  ASSERT_EQ(sent.size(), 3u);
  for (const Sent& one : sent) {
    EXPECT_EQ(one.ticket.kind, Kind::kError);
    EXPECT_EQ(one.ticket.text, "connection refused");
  }
}

TEST(Admission, AnAlreadyStoppedAttemptTakesNothing) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 60)}));
  StopSource stop;
  stop.RequestStop(StopCode::kUser);
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 1, {}, &sent, stop.token());
  RunToEnd(&worker, &scope);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ticket.kind, Kind::kStopped);
  EXPECT_EQ(worker.admission.Snapshot().charged_last_minute, Costs{});
}

TEST(Admission, AnAttemptAfterTheShutdownIsStopped) {
  Worker worker(Pool({Slots(1)}));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  auto main = [](Worker* w, TaskScope* s, std::vector<Sent>* out) -> Task<void> {
    co_await w->admission.Shutdown();
    co_await w->slow_admission.Shutdown();
    SpawnMany(w, s, 1, {.slow = true}, out);
    co_await s->Join();
  };
  worker.reactor.Run(main(&worker, &scope, &sent));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ticket.kind, Kind::kStopped);
}

TEST(Admission, SendsArePacedInTheOrderOfAsking) {
  for (const bool slow : {false, true}) {
    // 600 a minute is one per 100 ms; the burst of 250 ms lets three go at once.
    Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 100, {.slow = slow}, &sent);
    RunToEnd(&worker, &scope);
    ASSERT_EQ(sent.size(), 100u);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(sent[i].tag, i);
      EXPECT_EQ(sent[i].ticket.kind, Kind::kAdmitted);
      EXPECT_NEAR(sent[i].at, i < 3 ? 0 : 0.1 * i - 0.25, 0.002) << i;
      EXPECT_NEAR(absl::ToDoubleSeconds(sent[i].ticket.waited), sent[i].at, 1e-9);
    }
    EXPECT_EQ(worker.admission.rebooked() + worker.slow_admission.rebooked(), 0);
    EXPECT_EQ(worker.admission.waiting(), 0);
  }
}

TEST(Admission, UnlimitedPoolsNeverSuspend) {
  Worker worker(Pool({}));
  auto main = [](Worker* w) -> Task<void> {
    const uint64_t before = w->reactor.steps();
    std::vector<Ticket> tickets;
    for (int i = 0; i < 10'000; ++i) {
      Ticket ticket = co_await w->admission.Admit(i % 7, i % 3, 1, Tokens(1000), StopToken());
      EXPECT_EQ(ticket.kind, Kind::kAdmitted);
      tickets.push_back(ticket);
    }
    EXPECT_EQ(w->reactor.steps(), before);
    EXPECT_EQ(w->admission.Snapshot().in_flight, 10'000);
    for (const Ticket& ticket : tickets) {
      w->admission.Settle(ticket, Settlement::kCharged, Tokens(1000));
    }
    EXPECT_EQ(w->admission.Snapshot().in_flight, 0);
  };
  worker.reactor.Run(main(&worker));
}

TEST(Admission, AFreedSlotWakesTheNextWaiterInTheSameInstant) {
  for (const bool slow : {false, true}) {
    Worker worker(Pool({Slots(2)}));
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 10, {.hold = absl::Seconds(3), .slow = slow}, &sent);
    RunToEnd(&worker, &scope);
    EXPECT_EQ(TimesOf(sent), (std::vector<double>{0, 0, 3, 3, 6, 6, 9, 9, 12, 12}));
    EXPECT_EQ(worker.admission.Snapshot().in_flight, 0);
  }
}

TEST(Admission, ASlotFreedByOneWorkerWakesAnother) {
  Worker worker(Pool({Slots(1)}));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 2, {.hold = absl::Seconds(3)}, &sent);
  SpawnMany(&worker, &scope, 2, {.hold = absl::Seconds(3), .slow = true}, &sent);
  RunToEnd(&worker, &scope);
  EXPECT_EQ(TimesOf(sent), (std::vector<double>{0, 3, 6, 9}));
}

TEST(Admission, QuestionsGrowWithAdmissionsAndTimeAndNotWithWaiters) {
  // Invariant 21: a thousand or ten thousand waiters ask equally often.
  for (const int waiters : {1'000, 10'000}) {
    Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
    StopSource stop;
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, waiters, {.slow = true}, &sent, stop.token());
    scope.Spawn(AtTime(&worker, 60, [&] { stop.RequestStop(StopCode::kUser); }));
    RunToEnd(&worker, &scope);
    EXPECT_EQ(sent.size(), static_cast<size_t>(waiters));
    // One question per eighth of the horizon of 2 s, and the first ones.
    EXPECT_LE(worker.slow.questions(), 60 * 4 + 16) << waiters;
  }
}

}  // namespace
}  // namespace headrace::quota
