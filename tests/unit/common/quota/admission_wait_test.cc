// What can happen to an attempt while it waits: stops, gates, lateness.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

using Kind = Ticket::Kind;

int Count(const std::vector<Sent>& sent, Kind kind) {
  return static_cast<int>(std::count_if(sent.begin(), sent.end(),
                                        [&](const Sent& one) { return one.ticket.kind == kind; }));
}

Penalty Rate(absl::Duration retry_after, MonoTime sent_at) {
  Penalty penalty;
  penalty.retry_after = retry_after;
  penalty.sent_at = sent_at;
  return penalty;
}

Task<void> ReconfigureAt(Worker* worker, double seconds, PoolSpec spec) {
  co_await Sleep(&worker->reactor, worker->start + absl::Seconds(seconds), StopToken());
  const absl::Status status = co_await worker->store.Reconfigure(std::move(spec));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AdmissionWait, AStopGivesBackWhatWasBooked) {
  for (const bool slow : {false, true}) {
    SCOPED_TRACE(slow);
    Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
    StopSource stop;
    std::vector<Sent> stopped;
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 100, {.slow = slow}, &stopped, stop.token());
    scope.Spawn(AtTime(&worker, 0.5, [&] {
      stop.RequestStop(StopCode::kDeadline);
      EXPECT_EQ(worker.admission.waiting(), 0);
      EXPECT_EQ(worker.admission.Snapshot().in_flight, 0);
    }));
    SpawnMany(&worker, &scope, 1, {.slow = slow, .after = 0.5}, &sent);
    RunToEnd(&worker, &scope);
    // By 0.5 s eight are out: at 0, 0, 0, 0.05, 0.15, 0.25, 0.35 and 0.45 s.
    EXPECT_EQ(Count(stopped, Kind::kAdmitted), 8);
    EXPECT_EQ(Count(stopped, Kind::kStopped), 92);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_NEAR(sent[0].at, 0.55, 0.002);
  }
}

// Once eight workers gave back all that they had booked, at the same moment: one second of the
// quota was lost, as others had booked behind it already.
TEST(AdmissionWait, ADeadlineLeavesWhoHasASendTime) {
  for (const bool slow : {false, true}) {
    SCOPED_TRACE(slow);
    Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
    StopSource stop;
    StopSource call;
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 100, {.slow = slow, .call = call.token()}, &sent, stop.token());
    int64_t booked = 0;
    scope.Spawn(AtTime(&worker, 0.5, [&] {
      stop.RequestStop(StopCode::kDeadline);
      booked = worker.admission.waiting() + worker.slow_admission.waiting();
    }));
    scope.Spawn(AtTime(&worker, 1.5, [&] { call.RequestStop(StopCode::kDeadline); }));
    RunToEnd(&worker, &scope);
    EXPECT_GE(booked, 15);  // the horizon is 2 s
    EXPECT_LE(booked, 20);
    // By 0.5 s eight are out, then one each 100 ms until the calls are stopped too.
    EXPECT_EQ(Count(sent, Kind::kAdmitted), 18);
    EXPECT_EQ(Count(sent, Kind::kStopped), 82);
    EXPECT_EQ(worker.admission.Snapshot().in_flight, 0);
  }
}

TEST(AdmissionWait, ADeadlineStopsWhoseBookingWasTakenBackByAGate) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
  StopSource stop;
  StopSource call;
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 100, {.call = call.token()}, &sent, stop.token());
  scope.Spawn(AtTime(&worker, 0.5, [&] { stop.RequestStop(StopCode::kDeadline); }));
  scope.Spawn(AtTime(&worker, 1.0, [&] {
    worker.admission.Penalize(Rate(absl::Seconds(5), worker.reactor.Now()));
    EXPECT_EQ(worker.admission.waiting(), 0);
  }));
  RunToEnd(&worker, &scope);
  EXPECT_EQ(Count(sent, Kind::kAdmitted), 13);
  EXPECT_EQ(Count(sent, Kind::kStopped), 87);
  EXPECT_EQ(worker.admission.Snapshot().in_flight, 0);
}

TEST(AdmissionWait, AStopDuringAQuestionGivesBackWhatTheAnswerBooks) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 600), Slots(10)}));
  worker.slow.set_delay(absl::Seconds(1));
  StopSource stop;
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 3, {.slow = true}, &sent, stop.token());
  scope.Spawn(AtTime(&worker, 0.5, [&] {
    EXPECT_EQ(worker.slow_admission.Snapshot().in_flight, 3);
    stop.RequestStop(StopCode::kDeadline);
  }));
  RunToEnd(&worker, &scope);
  EXPECT_EQ(Count(sent, Kind::kStopped), 3);
  EXPECT_EQ(sent[0].at, 0.5);
  EXPECT_EQ(worker.slow_admission.Snapshot().in_flight, 0);
  EXPECT_EQ(worker.slow_admission.Snapshot().charged_last_minute[0], 0);
}

TEST(AdmissionWait, AnAnswerThatComesTooLateIsBookedAnew) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
  worker.slow.set_delay(absl::Seconds(3));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 5, {.slow = true}, &sent);
  scope.Spawn(AtTime(&worker, 1, [&] { worker.slow.set_delay(absl::Milliseconds(1)); }));
  RunToEnd(&worker, &scope);
  EXPECT_EQ(Count(sent, Kind::kAdmitted), 5);
  EXPECT_EQ(worker.slow_admission.rebooked(), 5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sent[i].tag, i);
  // Paced again, and charged once.
  EXPECT_NEAR(sent[2].at, 3, 0.01);
  EXPECT_NEAR(sent[4].at, 3.15, 0.01);
  EXPECT_EQ(worker.slow_admission.Snapshot().charged_last_minute[0], 5);
}

TEST(AdmissionWait, AStoreThatIsAlwaysTooLateDoesNotKeepAnAttemptForEver) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
  worker.slow.set_delay(absl::Seconds(1));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 2, {.slow = true}, &sent);
  RunToEnd(&worker, &scope);
  ASSERT_EQ(Count(sent, Kind::kAdmitted), 2);
  EXPECT_EQ(sent[1].at, 4);
}

TEST(AdmissionWait, AGateHoldsWhatIsBookedAndItGoesOutPacedInTheSameOrder) {
  for (const bool slow : {false, true}) {
    SCOPED_TRACE(slow);
    Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 40, {.slow = slow}, &sent);
    scope.Spawn(AtTime(&worker, 1,
                       [&] { worker.admission.Penalize(Rate(absl::Seconds(5), worker.start)); }));
    RunToEnd(&worker, &scope);
    ASSERT_EQ(sent.size(), 40u);
    double last = 0;
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(sent[i].tag, i);
      EXPECT_TRUE(sent[i].at <= 1 || sent[i].at >= 6) << sent[i].at;
      if (sent[i].at > 6) EXPECT_GE(sent[i].at - last, 0.098);
      last = sent[i].at;
    }
    EXPECT_NEAR(last, 6 + 0.1 * 26 * 1.024, 0.1);
    EXPECT_EQ(worker.admission.Snapshot().in_flight, 0);
    EXPECT_EQ(worker.admission.Snapshot().charged_last_minute[0], 40);
  }
}

TEST(AdmissionWait, AnAttemptWhoseTimeCameInTheTurnOfTheGateIsHeldToo) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}), {}, seed, /*shuffle=*/true);
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 8, {}, &sent);
    size_t sent_before_the_gate = 0;
    scope.Spawn(AtTime(&worker, 0.25, [&] {  // the sixth is due now
      worker.admission.Penalize(Rate(absl::Seconds(5), worker.start));
      sent_before_the_gate = sent.size();
    }));
    RunToEnd(&worker, &scope);
    ASSERT_EQ(sent.size(), 8u);
    EXPECT_GE(sent[sent_before_the_gate].at, 5.25);
  }
}

TEST(AdmissionWait, AGateSetDuringAQuestionHoldsWhatTheQuestionBooked) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
  worker.slow.set_delay(absl::Milliseconds(400));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 10, {.slow = true}, &sent);
  scope.Spawn(AtTime(&worker, 0.2,
                     [&] { worker.admission.Penalize(Rate(absl::Seconds(5), worker.start)); }));
  RunToEnd(&worker, &scope);
  ASSERT_EQ(sent.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(sent[i].tag, i);
    EXPECT_GE(sent[i].at, 5.2);
  }
}

TEST(AdmissionWait, AThunderingHerdIsPacedAfterAGate) {
  // quota.md 3.4: 1,280 in flight with 1,500 tokens each at 2M a minute, all told to wait 5 s.
  // Independent waits would put 1.92M tokens at t + 5 s against 167k refilled.
  Worker worker(Pool({PerMinute(Dimension::kTokens, 2'000'000)}));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  worker.admission.Penalize(Rate(absl::Seconds(5), worker.start));
  for (int i = 0; i < 1280; ++i) {
    worker.admission.Penalize(Rate(absl::Seconds(5), worker.start - absl::Seconds(1)));
  }
  SpawnMany(&worker, &scope, 1280, {.costs = Tokens(1500), .hold = absl::Seconds(2)}, &sent);
  RunToEnd(&worker, &scope);
  ASSERT_EQ(sent.size(), 1280u);
  EXPECT_EQ(Count(sent, Kind::kAdmitted), 1280);
  EXPECT_GE(sent[0].at, 5);
  // In any stretch of time no more than the rate gives, and one request.
  for (size_t i = 0; i < sent.size(); i += 7) {
    for (size_t j = i; j < sent.size(); j += 11) {
      const double tokens = 1500.0 * static_cast<double>(j - i);
      EXPECT_LE(tokens, (sent[j].at - sent[i].at + 0.002) * 2'000'000 / 60 + 1500);
    }
  }
  // 57.6 s of tokens at 97.7 % of the rate, which grows back.
  EXPECT_NEAR(sent.back().at, 5 + 58.3, 0.7);
}

TEST(AdmissionWait, ALowerLimitHoldsAtOnceForWhatIsBooked) {
  Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
  std::vector<Sent> sent;
  TaskScope scope(&worker.reactor, StopToken());
  SpawnMany(&worker, &scope, 20, {}, &sent);
  scope.Spawn(ReconfigureAt(&worker, 0.5, Pool({PerMinute(Dimension::kRequests, 60)})));
  RunToEnd(&worker, &scope);
  ASSERT_EQ(sent.size(), 20u);
  EXPECT_LE(sent[7].at, 0.5);
  // Half a request had come back since; what is taken over is rounded to whole ones, downwards.
  EXPECT_NEAR(sent[8].at, 1.5, 0.26);
  EXPECT_NEAR(sent[19].at - sent[8].at, 11, 0.002);
}

TEST(AdmissionWait, AStoppedAccountEndsAllWhoWait) {
  for (const bool slow : {false, true}) {
    Worker worker(Pool({PerMinute(Dimension::kRequests, 600)}));
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    SpawnMany(&worker, &scope, 200, {.slow = slow}, &sent);
    scope.Spawn(AtTime(&worker, 1, [&] {
      Penalty stop;
      stop.kind = Penalty::Kind::kStop;
      stop.text = "no credit left";
      worker.admission.Penalize(stop);
    }));
    RunToEnd(&worker, &scope);
    EXPECT_EQ(sent.size(), 200u);
    EXPECT_EQ(sent.back().ticket.kind, Kind::kClosed);
    EXPECT_EQ(sent.back().ticket.text, "no credit left");
    EXPECT_EQ(sent.back().at, 1);
    EXPECT_EQ(Count(sent, Kind::kClosed), 187);
  }
}

// Whatever is stopped at whatever moment, everything is given back and the rest goes out on time.
TEST(AdmissionWait, RandomStopsGatesAndDelaysLeaveNothingBehind) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    AdmissionOptions options;
    options.max_batch = static_cast<int>(random.Between(int64_t{1}, int64_t{20}));
    Worker worker(Pool({PerMinute(Dimension::kTokens, 60'000), Slots(20)}), options, seed, true);
    worker.slow.set_delay(absl::Milliseconds(static_cast<int64_t>(random.Below(800))));
    std::vector<StopSource> stops(10);
    std::vector<Sent> sent;
    TaskScope scope(&worker.reactor, StopToken());
    for (int i = 0; i < 200; ++i) {
      AttemptOptions attempt;
      attempt.job = random.Below(3);
      attempt.costs = Tokens(random.Between(int64_t{1}, int64_t{300}));
      attempt.hold = absl::Milliseconds(static_cast<int64_t>(random.Below(2000)));
      attempt.slow = random.Chance(0.5);
      scope.Spawn(Attempt(&worker, i, attempt, &sent, stops[i % 10].token()));
    }
    for (int i = 0; i < 5; ++i) {
      StopSource* stop = &stops[i];
      scope.Spawn(
          AtTime(&worker, random.Unit() * 20, [stop] { stop->RequestStop(StopCode::kDeadline); }));
      scope.Spawn(AtTime(&worker, random.Unit() * 20, [&] {
        worker.admission.Penalize(Rate(absl::Milliseconds(1500), worker.reactor.Now()));
      }));
    }
    RunToEnd(&worker, &scope);
    EXPECT_EQ(sent.size(), 200u);
    EXPECT_EQ(worker.admission.Snapshot().in_flight, 0);
    EXPECT_EQ(worker.admission.waiting() + worker.slow_admission.waiting(), 0);
    EXPECT_GE(Count(sent, Kind::kAdmitted), 100);
    EXPECT_EQ(Count(sent, Kind::kAdmitted) + Count(sent, Kind::kStopped), 200);
  }
}

}  // namespace
}  // namespace headrace::quota
