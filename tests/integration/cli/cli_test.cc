// The `headrace` binary as scripts see it: arguments in, exit code and text out.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A child process whose standard output and error are one pipe.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments) {
    int fds[2];
    if (pipe(fds) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(fds[1], STDOUT_FILENO);
      dup2(fds[1], STDERR_FILENO);
      close(fds[0]);
      close(fds[1]);
      std::vector<char*> argv = {const_cast<char*>(HEADRACE_BINARY)};
      for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      execv(HEADRACE_BINARY, argv.data());
      _exit(127);
    }
    close(fds[1]);
    fd_ = fds[0];
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(fd_);
  }

  // Reads until `text` has been seen, or the end.
  const std::string& ReadUntil(const std::string& text) {
    char buffer[4096];
    while (!absl::StrContains(output_, text)) {
      const ssize_t size = read(fd_, buffer, sizeof(buffer));
      if (size <= 0) break;
      output_.append(buffer, static_cast<size_t>(size));
    }
    return output_;
  }
  void Signal(int number) { kill(pid_, number); }
  // Reads to the end; the exit code, or 128 + the signal that ended it.
  int Wait() {
    ReadUntil(std::string("\0never", 6));
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string output_;
};

std::pair<int, std::string> RunHeadrace(const std::vector<std::string>& arguments) {
  Child child(arguments);
  const int code = child.Wait();
  return {code, child.output()};
}

TEST(Cli, WrongUsageEndsWithTwoAndSaysWhatIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "subcommand"},
      {{"fly"}, "fly"},
      {{"run"}, "input is required"},
      {{"run", "data.jsonl"}, "no model: give --model NAME"},
      {{"run", "data.jsonl", "--deadline", "soon"}, "--deadline"},
      {{"run", "data.jsonl", "--progress", "fancy"}, "auto, tty, plain, json"},
      {{"version", "--log-level", "loud"}, "--log-level"},
      {{"simulate", "--fault", "nonsense=1"}, "nonsense"},
      {{"validate", "no/such/job.yaml"}, "job.yaml"},
  };
  for (const auto& [arguments, text] : cases) {
    const auto [code, output] = RunHeadrace(arguments);
    EXPECT_EQ(code, 2) << output;
    EXPECT_THAT(output, HasSubstr(text));
  }
}

TEST(Cli, ADryRunFindsAMissingKeyAndSendsNothing) {
  const std::string data = ::testing::TempDir() + "/cli_dry_run.jsonl";
  std::ofstream(data) << "{\"q\":\"one\"}\n";
  const auto [code, output] =
      RunHeadrace({"run", data, "--model", "m", "--endpoint", "https://127.0.0.1:1/v1", "--prompt",
                   "{{q}}", "--api-key-env", "HEADRACE_TEST_NO_SUCH_KEY", "--dry-run"});
  std::remove(data.c_str());
  EXPECT_EQ(code, 4) << output;
  EXPECT_THAT(output, HasSubstr("HEADRACE_TEST_NO_SUCH_KEY"));
}

TEST(Cli, ARunThatCannotBeginLeavesNoDirectory) {
  const std::string data = ::testing::TempDir() + "/cli_cannot_begin.jsonl";
  const std::string out = ::testing::TempDir() + "/cli_cannot_begin_run";
  std::ofstream(data) << "{\"q\":\"one\"}\n";
  const std::vector<std::pair<std::vector<std::string>, int>> cases = {
      {{data, "--prompt", "{{q}}", "--api-key-env", "HEADRACE_TEST_NO_SUCH_KEY"}, 4},
      {{data, "--prompt", "{{typo}}"}, 2},
      {{data + ".missing", "--prompt", "{{q}}"}, 2},
  };
  for (const auto& [flags, expected] : cases) {
    std::vector<std::string> arguments = {
        "run", "--model", "m", "--endpoint", "http://127.0.0.1:1/v1", "--out", out};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto [code, output] = RunHeadrace(arguments);
    EXPECT_EQ(code, expected) << output;
    EXPECT_NE(access(out.c_str(), F_OK), 0) << output;
  }
  std::remove(data.c_str());
}

TEST(Cli, FailuresAreExplainedWithAnExample) {
  const std::string data = ::testing::TempDir() + "/cli_example.jsonl";
  const std::string out = ::testing::TempDir() + "/cli_example_run";
  std::ofstream(data) << "{\"q\":\"one\"}\n{\"other\":\"two\"}\n";
  const auto [code, output] =
      RunHeadrace({"run", data, "--prompt", "{{q}}", "--model", "m", "--endpoint",
                   "http://127.0.0.1:1/v1", "--attempts", "1", "--passes", "1", "--out", out});
  std::filesystem::remove_all(out);
  std::remove(data.c_str());
  EXPECT_THAT(output, ContainsRegex("bad_row: 1 .*\n    e\\.g\\. .*no field 'q'"));
}

TEST(Cli, TheLastProgressLineStillTellsHowMuchOfTheQuotaWasUsed) {
  Child provider({"simulate", "--port", "0", "--tokens", "110:120"});
  const std::string listening = provider.ReadUntil("/v1\n");
  const std::string url =
      listening.substr(listening.find("http"), listening.find('\n') - listening.find("http"));
  const std::string data = ::testing::TempDir() + "/cli_quota.jsonl";
  const std::string out = ::testing::TempDir() + "/cli_quota_run";
  std::ofstream(data) << "{\"q\":\"one\"}\n";
  const auto [code, output] =
      RunHeadrace({"run", data, "--prompt", "{{q}}", "--model", "m", "--endpoint", url, "--tpm",
                   "10k", "--progress", "json", "--out", out});
  std::filesystem::remove_all(out);
  std::remove(data.c_str());
  EXPECT_EQ(code, 0) << output;
  const size_t last = output.find("{\"event\":\"finished\"");
  ASSERT_NE(last, std::string::npos) << output;
  EXPECT_THAT(output.substr(last), ContainsRegex("\"tokens_per_minute\":[1-9]"));
}

TEST(Cli, HelpShowsTheExitCodes) {
  const auto [code, output] = RunHeadrace({"--help"});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(output, HasSubstr("  130  interrupted"));
  EXPECT_EQ(RunHeadrace({"run", "--help"}).first, 0);
}

TEST(Cli, VersionIsForPeopleOrForPrograms) {
  EXPECT_THAT(RunHeadrace({"version"}).second, StartsWith("headrace "));
  const auto [code, output] = RunHeadrace({"version", "--json"});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(output, StartsWith("{\"version\":\""));
}

TEST(Cli, GlobalFlagsStandBeforeOrAfterTheCommand) {
  EXPECT_EQ(RunHeadrace({"--log-level", "debug", "version"}).first, 0);
  EXPECT_EQ(RunHeadrace({"version", "--no-color", "--log-format", "json"}).first, 0);
}

TEST(Cli, TheSimulatorSaysWhereItListensAndEndsOnSigterm) {
  Child child({"simulate", "--port", "0"});
  EXPECT_THAT(child.ReadUntil("/v1\n"), HasSubstr("listening on http://127.0.0.1:"));
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Wait(), 0);
}

TEST(Cli, ValidateFindsABadRowAndEstimateCountsTheGoodOnes) {
  const std::string data = ::testing::TempDir() + "/cli_test.jsonl";
  const std::vector<std::string> flags = {
      data, "--model", "m", "--endpoint", "http://127.0.0.1:1/v1", "--prompt", "{{q}}"};
  std::vector<std::string> validate = flags, estimate = flags;
  validate.insert(validate.begin(), "validate");
  estimate.insert(estimate.begin(), "estimate");

  std::ofstream(data) << "{\"q\":\"one\"}\n{\"q\":\"two\"}\n";
  EXPECT_EQ(RunHeadrace(validate).first, 0) << RunHeadrace(validate).second;
  EXPECT_THAT(RunHeadrace(estimate).second, HasSubstr("2 rows"));
  std::ofstream(data) << "{\"q\":\"one\"}\n{\"other\":\"two\"}\n";
  EXPECT_THAT(RunHeadrace(validate).second, HasSubstr("cli_test.jsonl:2: "));
  std::remove(data.c_str());
}

}  // namespace
}  // namespace headrace
