// A real process that is killed while it appends: every acknowledged item is in the files.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/base/random.h"
#include "coordinator/store/run_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

constexpr int kKills = 10;
constexpr uint64_t kItems = 1'000'000;  // more than the child can write before it is killed
constexpr int kWriters = 8;
constexpr uint64_t kChunk = 16;

RunIdentity Identity() {
  RunIdentity identity = TestIdentity();
  identity.rows = kItems;
  return identity;
}

// Appends chunks of the items that have no outcome yet and writes their numbers to `fd` when they
// are acknowledged.
Task<void> Writer(RunStore* store, const std::set<uint64_t>* done, uint64_t* next, int fd) {
  while (*next < kItems) {
    std::vector<LogRecord> records;
    std::string message;
    for (; records.size() < kChunk && *next < kItems; ++*next) {
      if (done->contains(*next)) continue;
      const ErrorClass error_class = *next % 7 == 0 ? ErrorClass::kAuth : ErrorClass::kNone;
      records.push_back(RecordOf(*next, error_class, 500));
      absl::StrAppend(&message, *next, "\n");
    }
    const absl::Status status = co_await store->Append(std::move(records), {});
    if (!status.ok()) _exit(3);
    if (write(fd, message.data(), message.size()) != static_cast<ssize_t>(message.size())) {
      _exit(4);
    }
  }
}

Task<void> Writers(Reactor* reactor, RunStore* store, const std::set<uint64_t>* done, int fd) {
  TaskScope scope(reactor, StopToken());
  uint64_t next = 0;
  for (int i = 0; i < kWriters; ++i) scope.Spawn(Writer(store, done, &next, fd));
  co_await scope.Join();
}

[[noreturn]] void RunChild(const std::string& dir, int fd) {
  const std::unique_ptr<EpollReactor> reactor = *EpollReactor::Make();
  RunStoreOptions options;
  options.commit_interval = absl::Milliseconds(1);
  auto opened = OpenStore(Disk::Real(), reactor.get(), dir, options, Identity());
  if (!opened->ok()) {
    std::cerr << opened->store.status() << "\n";
    _exit(2);
  }
  std::set<uint64_t> done;
  for (const auto& [item, error_class] : opened->visitor.outcomes) done.insert(item);
  if (write(fd, "ready\n", 6) != 6) _exit(4);
  reactor->Run(Writers(reactor.get(), opened->store->get(), &done, fd));
  _exit(0);
}

// Everything up to the last line end of what `fd` gives before `bytes` of it have come or its other
// end is closed.
std::string ReadSome(int fd, size_t bytes) {
  std::string text;
  char buffer[4096];
  while (text.size() < bytes) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

TEST(StoreKill, EveryAcknowledgedItemSurvivesKill9) {
  const uint64_t seed = RandomSeed();
  std::cout << "seed " << seed << "\n";
  Random random(seed);
  const TempDir dir;
  std::set<uint64_t> acknowledged;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(fds[0]);
      RunChild(dir.path(), fds[1]);
    }
    close(fds[1]);
    // Killed after a random amount of work, so that it hits all phases of a commit.
    std::string text = ReadSome(fds[0], 6 + random.Below(8000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    text += ReadSome(fds[0], SIZE_MAX);
    close(fds[0]);
    int wait_status = 0;
    ASSERT_EQ(waitpid(child, &wait_status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(wait_status)) << "exit code " << WEXITSTATUS(wait_status);

    text.resize(text.rfind('\n') + 1);
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      uint64_t item = 0;
      if (absl::SimpleAtoi(line, &item)) acknowledged.insert(item);
    }
    std::set<uint64_t> held;
    const auto check =
        ReadRun(Disk::Real(), dir.path(), [&](absl::string_view, const ResultLineKey& key) {
          held.insert(key.item.value());
          return absl::OkStatus();
        });
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->duplicates, 0);
    EXPECT_EQ(check->damaged, 0);
    for (const uint64_t item : acknowledged) ASSERT_TRUE(held.contains(item)) << item;
  }
  EXPECT_GT(acknowledged.size(), 100u);
}

}  // namespace
}  // namespace headrace
