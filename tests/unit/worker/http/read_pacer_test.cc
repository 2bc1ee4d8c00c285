#include "worker/http/read_pacer.h"

#include <gtest/gtest.h>

#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"

namespace headrace::http {
namespace {

constexpr absl::Duration kMaxTick = absl::Milliseconds(5);

struct FakeConnection final : ReadPacer::Client {
  bool OnReadTick(MonoTime now) override {
    ++ticks;
    return input_left-- > 0;
  }
  void OnPacingEnds() override { ++ends; }
  int ticks = 0;
  int input_left = 0;
  int ends = 0;
};

// Reads `count` times, `gap` apart; true if the last read led to pacing.
bool ReadOften(ReadPacer* pacer, FakeConnection* connection, int count, absl::Duration gap) {
  MonoTime now = MonoTime::FromNanos(1'000'000'000);
  for (int i = 0; i < count; ++i) {
    now = now + gap;
    if (pacer->AfterRead(connection, now)) return true;
  }
  return false;
}

Task<void> Pass(Reactor* reactor, absl::Duration time) {
  Sleep sleep(reactor, time, StopToken());
  co_await sleep;
}

TEST(ReadPacer, AQuietConnectionIsReadAtOnce) {
  VirtualReactor reactor(1);
  ReadPacer pacer(&reactor, kMaxTick);
  FakeConnection connection;
  EXPECT_FALSE(ReadOften(&pacer, &connection, 1000, absl::Milliseconds(1)));
  EXPECT_EQ(pacer.tick(), absl::ZeroDuration());
}

TEST(ReadPacer, ABusyConnectionIsPacedAndGoesBackWhenItFallsSilent) {
  VirtualReactor reactor(1);
  ReadPacer pacer(&reactor, kMaxTick);
  FakeConnection connection;
  ASSERT_TRUE(ReadOften(&pacer, &connection, 1000, absl::Microseconds(100)));
  EXPECT_TRUE(connection.paced());
  EXPECT_GT(pacer.tick(), absl::ZeroDuration());
  EXPECT_LE(pacer.tick(), kMaxTick);
  connection.input_left = 3;
  reactor.Run(Pass(&reactor, absl::Seconds(10)));
  EXPECT_EQ(connection.ticks, 3 + ReadPacer::kIdleTicks);
  EXPECT_EQ(connection.ends, 1);
  EXPECT_FALSE(connection.paced());
  EXPECT_EQ(pacer.tick(), absl::ZeroDuration());
}

TEST(ReadPacer, AZeroTickNeverPaces) {
  VirtualReactor reactor(1);
  ReadPacer pacer(&reactor, absl::ZeroDuration());
  FakeConnection connection;
  EXPECT_FALSE(ReadOften(&pacer, &connection, 1000, absl::Microseconds(10)));
}

TEST(ReadPacer, ARemovedConnectionIsNotReadAgain) {
  VirtualReactor reactor(1);
  ReadPacer pacer(&reactor, kMaxTick);
  FakeConnection connection;
  ASSERT_TRUE(ReadOften(&pacer, &connection, 1000, absl::Microseconds(100)));
  pacer.Remove(&connection);
  reactor.Run(Pass(&reactor, absl::Seconds(1)));
  EXPECT_EQ(connection.ticks, 0);
  EXPECT_EQ(connection.ends, 0);
}

}  // namespace
}  // namespace headrace::http
