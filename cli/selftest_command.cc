#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/run/local_run.h"
#include "cli/run/signals.h"
#include "common/base/status.h"
#include "simulator/simulator.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

struct SelftestFlags {
  int64_t concurrency = 2500;
  bool http11 = false;
};

// A directory that goes with its owner.
class ScratchDir {
 public:
  static absl::StatusOr<std::unique_ptr<ScratchDir>> Make() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "headrace-selftest-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr) {
      return absl::InternalError(absl::StrCat("no scratch directory ", name));
    }
    return std::unique_ptr<ScratchDir>(new ScratchDir(name));
  }
  ~ScratchDir() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit ScratchDir(fs::path path) : path_(std::move(path)) {}
  const fs::path path_;
};

absl::StatusOr<JobConfig> MakeJob(const SelftestFlags& flags, const fs::path& dir,
                                  const simulator::SimulatorThread& provider) {
  std::ofstream rows(dir / "rows.jsonl");
  for (int64_t i = 0; i < flags.concurrency; ++i) rows << "{\"question\":\"" << i << "\"}\n";
  std::ofstream ca(dir / "ca.pem");
  ca << provider.ca_pem();
  rows.close();
  ca.close();
  if (!rows || !ca) return absl::InternalError(absl::StrCat("cannot write into ", dir.string()));
  JobConfig job;
  job.name = "selftest";
  job.dataset.path = (dir / "rows.jsonl").string();
  job.dataset.prompt = "{{question}}";
  job.output_dir = (dir / "run").string();
  job.max_in_flight = flags.concurrency;
  job.attempts = 1;
  job.passes = 1;
  job.csv = false;
  ModelJob model;
  model.name = "selftest";
  model.endpoint = flags.http11 ? provider.plain_url() : provider.tls_url();
  if (!flags.http11) model.ca_file = (dir / "ca.pem").string();
  model.stream = false;
  job.models.push_back(std::move(model));
  const absl::Status finished = FinishJob(&job);
  if (!finished.ok()) return finished;
  return job;
}

// Each call over HTTP/1.1 is a connection, on both sides of this one process.
std::string WhyNot(const SelftestFlags& flags) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const auto needed = static_cast<rlim_t>(flags.http11 ? 2 * flags.concurrency + 64 : 512);
  if (files.rlim_cur < needed) {
    return absl::StrCat("the limit of open files is ", files.rlim_cur, ", and about ", needed,
                        " are needed: raise it with ulimit -n");
  }
  return "the calls did not all start in time: is the machine busy with something else?";
}

absl::StatusOr<bool> Selftest(const SelftestFlags& flags) {
  BlockStopSignals();
  simulator::SimulatorOptions options;
  options.tls_port = 0;
  options.latency = absl::ZeroDuration();
  options.barrier = static_cast<int>(flags.concurrency);
  options.max_connections = static_cast<int>(flags.concurrency) + 1000;
  HR_ASSIGN_OR_RETURN(std::unique_ptr<simulator::SimulatorThread> provider,
                      simulator::SimulatorThread::Start(options));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<ScratchDir> dir, ScratchDir::Make());
  LocalRunOptions run;
  HR_ASSIGN_OR_RETURN(run.job, MakeJob(flags, dir->path(), *provider));
  run.progress = ProgressMode::kNone;
  HR_ASSIGN_OR_RETURN(LocalRunEnd end, RunLocally(run));
  const simulator::Truth truth = provider->Truth();
  std::printf("%s: the provider held %lld calls at once; %lld were asked for\n",
              flags.http11 ? "HTTP/1.1" : "HTTP/2 over TLS",
              static_cast<long long>(truth.peak_in_flight),
              static_cast<long long>(flags.concurrency));
  if (truth.peak_in_flight >= flags.concurrency && end.end.exit_code == ExitCode::kOk) {
    std::printf("the configured concurrency is the real one\n");
    return true;
  }
  std::printf("not reached: %s\n",
              end.end.reason.empty() ? WhyNot(flags).c_str() : end.end.reason.c_str());
  return false;
}

}  // namespace

void AddSelftestCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand(
      "selftest", "Prove the concurrency: hold many calls at once in a built-in provider");
  auto flags = std::make_shared<SelftestFlags>();  // owned by the flags and by the callback
  command
      ->add_option("--concurrency", flags->concurrency,
                   "Calls to hold at once, 1 to 20000 (default: 2500)")
      ->check(CLI::Range(1, 20'000).description(""))
      ->type_name("N");
  command->add_flag("--http11", flags->http11, "Over HTTP/1.1 instead of HTTP/2 with TLS");
  command->callback([=] {
    chosen->body = [flags] {
      const absl::StatusOr<bool> reached = Selftest(*flags);
      if (!reached.ok()) return Fail("selftest", reached.status());
      return *reached ? ExitCode::kOk : ExitCode::kThreshold;
    };
  });
}

}  // namespace headrace
