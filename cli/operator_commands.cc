// `headrace status`, `jobs`, `submit` and `cancel`: what people and scripts ask of a coordinator.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/flag_types.h"
#include "cli/remote/coordinator_flags.h"
#include "cli/remote/status_view.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "coordinator/operator/operator_client.h"

namespace headrace {
namespace {

// Between two looks at a job that is waited for. Chosen, not measured.
constexpr absl::Duration kPollInterval = absl::Seconds(1);
// Between two lines on a job that only goes on, as `--progress plain` of a run.
constexpr absl::Duration kTellInterval = absl::Seconds(10);

struct OperatorFlags {
  CoordinatorFlags coordinator;
  absl::Duration timeout = absl::Seconds(10);
  bool json = false;
  std::string job;  // a file to submit; a name or an id to cancel
  std::string reason = "cancelled by an operator";
  bool wait = false;
};

struct Session {
  std::string address;
  std::unique_ptr<OperatorClient> client;
};

absl::StatusOr<Session> Open(const OperatorFlags& flags) {
  HR_ASSIGN_OR_RETURN(CoordinatorConnection connection, Connect(flags.coordinator));
  Session session;
  session.address = connection.address;
  session.client = std::make_unique<OperatorClient>(connection.channel, std::move(connection.token),
                                                    flags.timeout);
  return session;
}

// Adds where it happened to a status of the network.
absl::Status AtCoordinator(const absl::Status& status, const Session& session) {
  if (!absl::IsUnavailable(status)) return status;
  return Annotate(status, absl::StrCat("no coordinator at ", session.address));
}

ExitCode Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', stdout);
  return ExitCode::kOk;
}

ExitCode ShowStatus(const OperatorFlags& flags, bool jobs_only) {
  const char* name = jobs_only ? "jobs" : "status";
  const absl::StatusOr<Session> session = Open(flags);
  if (!session.ok()) return Fail(name, session.status());
  const absl::StatusOr<v1::GetStatusResponse> status = session->client->Status();
  if (!status.ok()) return Fail(name, AtCoordinator(status.status(), *session));
  if (jobs_only) return Print(flags.json ? JobsJson(*status) : RenderJobs(*status));
  return Print(flags.json ? StatusJson(*status) : RenderStatus(session->address, *status));
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(errno, path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.size() > static_cast<size_t>(rpc::kMaxMessageBytes) / 2) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is larger than a job file"));
  }
  return text;
}

// Looks at the job until it has ended; prints a line to standard error now and then, and when its
// state changes. The coordinator may be restarted meanwhile, for as long as the client's patience.
ExitCode WaitForJob(const Session& session, uint64_t job_id, bool json) {
  std::string state;
  absl::Time told = absl::InfinitePast();
  while (true) {
    const absl::StatusOr<v1::GetStatusResponse> status = session.client->Status();
    if (!status.ok()) return Fail("submit", AtCoordinator(status.status(), session));
    const v1::JobStatus* job = nullptr;
    for (const v1::JobStatus& other : status->jobs()) {
      if (other.job_id() == job_id) job = &other;
    }
    if (job == nullptr) {
      return Fail("submit", absl::InternalError("the coordinator has forgotten the job"));
    }
    if (HasEnded(*job)) {
      Print(json ? JobJson(*job) : RenderJobLine(*job));
      return static_cast<ExitCode>(job->exit_code());
    }
    const absl::Time now = absl::Now();
    if (job->state() != state || now - told >= kTellInterval) {
      std::fprintf(stderr, "%s\n", RenderJobLine(*job).c_str());
      state = job->state();
      told = now;
    }
    absl::SleepFor(kPollInterval);
  }
}

ExitCode Submit(const OperatorFlags& flags) {
  const absl::StatusOr<std::string> yaml = ReadText(flags.job);
  if (!yaml.ok()) return Fail("submit", yaml.status());
  const absl::StatusOr<Session> session = Open(flags);
  if (!session.ok()) return Fail("submit", session.status());
  const absl::StatusOr<v1::SubmitJobResponse> answer = session->client->Submit(*yaml);
  if (!answer.ok()) return Fail("submit", AtCoordinator(answer.status(), *session));
  if (flags.json && !flags.wait) return Print(SubmissionJson(*answer));
  const std::string line =
      absl::StrCat("job ", answer->job_id(), answer->existed() ? " runs already" : " was submitted",
                   "; its results go to ", answer->output_dir(), " on the coordinator");
  if (!flags.wait) return Print(line);
  std::fprintf(stderr, "%s\n", line.c_str());
  return WaitForJob(*session, answer->job_id(), flags.json);
}

ExitCode Cancel(const OperatorFlags& flags) {
  const absl::StatusOr<Session> session = Open(flags);
  if (!session.ok()) return Fail("cancel", session.status());
  const absl::StatusOr<v1::CancelJobResponse> answer =
      session->client->Cancel(flags.job, flags.reason);
  if (!answer.ok()) return Fail("cancel", AtCoordinator(answer.status(), *session));
  return Print(flags.json ? JobJson(answer->job()) : RenderJobLine(answer->job()));
}

CLI::App* AddCommand(CLI::App* app, const std::string& name, const std::string& help,
                     OperatorFlags* flags) {
  CLI::App* command = app->add_subcommand(name, help);
  AddCoordinatorFlags(command, &flags->coordinator);
  AddDuration(command, "--timeout", &flags->timeout,
              "Ask again for this long while no coordinator answers (default: 10s)");
  command->add_flag("--json", flags->json, "Print one JSON object");
  return command;
}

}  // namespace

void AddOperatorCommands(CLI::App* app, ChosenCommand* chosen) {
  // Each owned by its flags and by its callback.
  auto status = std::make_shared<OperatorFlags>();
  AddCommand(app, "status", "Show a coordinator, its jobs and its workers", status.get())
      ->callback([=] { chosen->body = [status] { return ShowStatus(*status, false); }; });

  auto jobs = std::make_shared<OperatorFlags>();
  AddCommand(app, "jobs", "List the jobs of a coordinator", jobs.get())->callback([=] {
    chosen->body = [jobs] { return ShowStatus(*jobs, true); };
  });

  auto submit = std::make_shared<OperatorFlags>();
  CLI::App* command = AddCommand(
      app, "submit", "Give a coordinator a job; submitting it again resumes it", submit.get());
  command->add_option("job", submit->job, "Job file; its paths are those of the coordinator")
      ->type_name("FILE")
      ->required();
  command->add_flag("--wait", submit->wait, "Wait for the job's end, and end with its exit code");
  command->callback([=] { chosen->body = [submit] { return Submit(*submit); }; });

  auto cancel = std::make_shared<OperatorFlags>();
  command = AddCommand(app, "cancel", "End a job; what it has done stays, and it can be resumed",
                       cancel.get());
  command->add_option("job", cancel->job, "Name or id of the job")->type_name("JOB")->required();
  command->add_option("--reason", cancel->reason, "For the job's summary and those who look at it")
      ->type_name("TEXT");
  command->callback([=] { chosen->body = [cancel] { return Cancel(*cancel); }; });
}

}  // namespace headrace
