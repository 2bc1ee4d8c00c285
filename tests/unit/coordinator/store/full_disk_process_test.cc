// A real process on a real file system without room. Needs the right to mount a tmpfs.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "coordinator/store/run_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

constexpr uint64_t kItems = 1000;
constexpr uint64_t kChunk = 8;
constexpr size_t kAnswerBytes = 1000;

RunIdentity Identity() {
  RunIdentity identity = TestIdentity();
  identity.rows = kItems;
  return identity;
}

void Say(int fd, const std::string& text) {
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(4);
}

Task<void> WriteItems(RunStore* store, const std::set<uint64_t>* done, int fd, StopSource* ended) {
  for (uint64_t next = 0; next < kItems;) {
    std::vector<LogRecord> records;
    std::string message;
    for (; records.size() < kChunk && next < kItems; ++next) {
      if (done->contains(next)) continue;
      records.push_back(RecordOf(next, ErrorClass::kNone, kAnswerBytes));
      absl::StrAppend(&message, next, "\n");
    }
    const absl::Status status = co_await store->Append(std::move(records), {});
    if (!status.ok()) _exit(3);
    Say(fd, message);
  }
  ended->RequestStop(StopCode::kPolicy);
}

// As a progress view does.
Task<void> WatchForFull(Reactor* reactor, RunStore* store, int fd, StopToken ended) {
  std::string said;
  while (co_await Sleep(reactor, absl::Milliseconds(5), ended)) {
    const std::string now = store->waiting_for();
    if (!now.empty() && said.empty()) Say(fd, absl::StrCat(now, "\n"));
    said = now;
  }
}

Task<void> ChildMain(Reactor* reactor, RunStore* store, const std::set<uint64_t>* done, int fd) {
  StopSource ended;
  TaskScope scope(reactor, StopToken());
  scope.Spawn(WriteItems(store, done, fd, &ended));
  scope.Spawn(WatchForFull(reactor, store, fd, ended.token()));
  co_await scope.Join();
  const absl::Status closed = co_await store->Close();
  if (!closed.ok()) _exit(5);
}

[[noreturn]] void RunChild(const std::string& dir, int fd) {
  const std::unique_ptr<EpollReactor> reactor = *EpollReactor::Make();
  RunStoreOptions options;
  options.commit_interval = absl::Milliseconds(1);
  options.full_disk_first_retry = options.full_disk_retry = absl::Milliseconds(20);
  auto opened = OpenStore(Disk::Real(), reactor.get(), dir, options, Identity());
  if (!opened->ok()) {
    std::cerr << opened->store.status() << "\n";
    _exit(2);
  }
  std::set<uint64_t> done;
  for (const auto& [item, error_class] : opened->visitor.outcomes) done.insert(item);
  reactor->Run(ChildMain(reactor.get(), opened->store->get(), &done, fd));
  _exit(0);
}

class FullDiskProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    // Other processes do not see the mount, and it goes with this one.
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, "size=2m") != 0) {
      GTEST_SKIP() << "a small tmpfs cannot be mounted here: " << strerror(errno);
    }
    mounted_ = true;
    // Room for a third of the results.
    const auto filler = Disk::Real()->OpenAppend(filler_);
    ASSERT_TRUE(filler.ok()) << filler.status();
    ASSERT_EQ((*filler)->Append(std::string(size_t{1500} << 10, 'f')), absl::OkStatus());
  }
  void TearDown() override {
    if (child_ > 0) {  // after a failure
      kill(child_, SIGKILL);
      WaitForChild();
    }
    if (mounted_) EXPECT_EQ(umount2(dir_.path().c_str(), MNT_DETACH), 0);
  }

  void StartChild() {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      close(fds[0]);
      RunChild(run_, fds[1]);
    }
    close(fds[1]);
    from_child_ = fds[0];
  }
  // Waits for the sentence that the disk is full.
  void ExpectFull() {
    while (!absl::StrContains(said_, "it is full")) ASSERT_TRUE(ReadMore()) << said_;
    // It is not acknowledging while it waits.
    pollfd readable = {.fd = from_child_, .events = POLLIN, .revents = 0};
    while (said_.back() != '\n') ASSERT_TRUE(ReadMore());
    EXPECT_EQ(poll(&readable, 1, /*timeout_ms=*/200), 0);
    EXPECT_LT(Acknowledged().size(), kItems);
    EXPECT_GT(Acknowledged().size(), 100u);
  }
  void FreeSpace() { ASSERT_EQ(unlink(filler_.c_str()), 0); }
  int WaitForChild() {
    while (ReadMore()) {
    }
    close(from_child_);
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    child_ = -1;
    return status;
  }
  std::set<uint64_t> Acknowledged() const {
    std::set<uint64_t> items;
    for (const absl::string_view line : absl::StrSplit(said_, '\n', absl::SkipEmpty())) {
      uint64_t item = 0;
      if (absl::SimpleAtoi(line, &item)) items.insert(item);
    }
    return items;
  }
  // No acknowledged item is missing and none has two lines.
  void ExpectSound() {
    std::set<uint64_t> held;
    const auto check =
        ReadRun(Disk::Real(), run_, [&](absl::string_view, const ResultLineKey& key) {
          held.insert(key.item.value());
          return absl::OkStatus();
        });
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->duplicates + check->damaged + check->unfinished_bytes, 0);
    for (const uint64_t item : Acknowledged()) EXPECT_TRUE(held.contains(item)) << item;
  }

  pid_t child_ = -1;

 private:
  bool ReadMore() {
    char buffer[4096];
    const ssize_t got = read(from_child_, buffer, sizeof(buffer));
    if (got > 0) said_.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  const TempDir dir_;
  const std::string run_ = dir_.path() + "/run";
  const std::string filler_ = dir_.path() + "/filler";
  bool mounted_ = false;
  int from_child_ = -1;
  std::string said_;
};

TEST_F(FullDiskProcess, GoesOnByItselfWhenAFileIsDeleted) {
  StartChild();
  ExpectFull();
  ExpectSound();
  FreeSpace();
  EXPECT_EQ(WaitForChild(), 0);
  EXPECT_EQ(Acknowledged().size(), kItems);
  ExpectSound();
}

TEST_F(FullDiskProcess, KilledWhileItWaitsItGoesOnAtTheNextStart) {
  StartChild();
  ExpectFull();
  ASSERT_EQ(kill(child_, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(WaitForChild()));
  ExpectSound();
  FreeSpace();
  StartChild();
  EXPECT_EQ(WaitForChild(), 0);
  EXPECT_EQ(Acknowledged().size(), kItems);
  ExpectSound();
}

}  // namespace
}  // namespace headrace
