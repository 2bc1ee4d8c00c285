// Two processes that want one run directory.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Opens the store, says so, and stays.
[[noreturn]] void HoldRun(const std::string& dir, int fd) {
  VirtualReactor reactor;
  const auto opened = OpenStore(Disk::Real(), &reactor, dir);
  if (!opened->ok() || write(fd, "x", 1) != 1) _exit(2);
  while (true) pause();
}

TEST(StoreLock, AStoppedHolderStillHoldsAndADeadOneDoesNot) {
  const TempDir dir;
  VirtualReactor reactor;
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t holder = fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) HoldRun(dir.path(), fds[1]);
  close(fds[1]);
  char byte;
  ASSERT_EQ(read(fds[0], &byte, 1), 1);
  close(fds[0]);

  const std::string refusal = absl::StrCat(dir.path(), " is in use: ", dir.path(),
                                           "/lock is locked by pid ", holder, " on host ");
  auto second = OpenStore(Disk::Real(), &reactor, dir.path());
  EXPECT_EQ(second->store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second->store.status().message()),
              AllOf(HasSubstr(refusal), Not(HasSubstr("stopped"))));

  ASSERT_EQ(kill(holder, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, WUNTRACED), holder);
  ASSERT_TRUE(WIFSTOPPED(status));
  second = OpenStore(Disk::Real(), &reactor, dir.path());
  EXPECT_EQ(second->store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second->store.status().message()),
              AllOf(HasSubstr(refusal),
                    HasSubstr(". It is stopped, but not dead: kill -CONT lets it go on")));

  ASSERT_EQ(kill(holder, SIGKILL), 0);
  ASSERT_EQ(waitpid(holder, &status, 0), holder);
  // The lock file still names the dead process, which blocks nobody.
  EXPECT_THAT(*Disk::Real()->ReadWhole(dir.path() + "/lock"), HasSubstr(absl::StrCat(holder)));
  second = OpenStore(Disk::Real(), &reactor, dir.path());
  EXPECT_EQ(second->store.status(), absl::OkStatus());
  EXPECT_EQ(RunCall(&reactor, (*second)->Close()), absl::OkStatus());
}

}  // namespace
}  // namespace headrace
