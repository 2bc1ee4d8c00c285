#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/dry_run.h"
#include "cli/flag_types.h"
#include "cli/job_flags.h"
#include "cli/run_job.h"

namespace headrace {
namespace {

struct RunFlags {
  JobFlags job;
  RunRequest request;
};

ExitCode Run(const RunFlags& flags, const GlobalFlags& globals) {
  RunRequest request = flags.request;
  request.no_color = globals.no_color;
  absl::StatusOr<JobConfig> job = MakeJob(flags.job);
  if (!job.ok()) return Fail("run", job.status());
  request.job = *std::move(job);
  request.job_file = JobFileName(flags.job);
  if (request.dry_run) return DryRun(request.job, request.job_file);
  return RunJob(request);
}

}  // namespace

void AddRunCommand(CLI::App* app, const GlobalFlags* globals, ChosenCommand* chosen) {
  CLI::App* command =
      app->add_subcommand("run", "Run a job on this machine; run it again to resume");
  auto flags = std::make_shared<RunFlags>();  // owned by the flags and by the callback
  AddJobFlags(command, &flags->job);
  RunRequest* request = &flags->request;
  command->add_option("--redis", request->redis, "Redis that shares the quota with other runs")
      ->type_name("URL");
  command->add_option("--admin", request->admin, "Not in this version")->type_name("ADDR:PORT");
  AddValue(command, "--progress", &request->progress, ParseProgressMode,
           "auto, tty, plain, json or none (default: auto)")
      ->type_name("MODE");
  command->add_flag("--dry-run", request->dry_run, "Check everything and send nothing");
  command->callback([=] { chosen->body = [flags, globals] { return Run(*flags, *globals); }; });
}

}  // namespace headrace
