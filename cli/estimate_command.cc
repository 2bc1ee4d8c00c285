#include <cstdio>
#include <memory>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/job_flags.h"
#include "cli/run/dataset_copy.h"
#include "coordinator/job/estimate.h"

namespace headrace {
namespace {

ExitCode Estimate(const JobFlags& flags) {
  const absl::StatusOr<JobConfig> job = MakeJob(flags);
  if (!job.ok()) return Fail("estimate", job.status());
  const absl::StatusOr<std::unique_ptr<PassingCopy>> copy = PassingCopy::Make(*job);
  if (!copy.ok()) return Fail("estimate", copy.status());
  const absl::StatusOr<JobEstimate> estimate = EstimateJob((*copy)->job());
  if (!estimate.ok()) return Fail("estimate", estimate.status());
  std::printf("%s", RenderEstimate(*job, *estimate).c_str());
  return ExitCode::kOk;
}

}  // namespace

void AddEstimateCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand(
      "estimate", "Say what a job will need: tokens, money, and time under its quotas");
  auto flags = std::make_shared<JobFlags>();  // owned by the flags and by the callback
  AddJobFlags(command, flags.get());
  command->callback([=] { chosen->body = [flags] { return Estimate(*flags); }; });
}

}  // namespace headrace
