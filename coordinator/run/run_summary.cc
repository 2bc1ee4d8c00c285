#include "coordinator/run/run_summary.h"

#include <simdjson.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/store/disk.h"
#include "coordinator/store/results_csv.h"

namespace headrace {
namespace {

RunState StateOf(const JobEnd& end) {
  if (end.state == "complete") return RunState::kComplete;
  if (end.state == "interrupted") return RunState::kInterrupted;
  return RunState::kStopped;
}

// Earlier parts of the run, as its summary tells them; a killed process wrote none.
void AddEarlierParts(Disk* disk, const std::string& dir, RunSummary* summary) {
  const absl::StatusOr<std::string> text = disk->ReadWhole(absl::StrCat(dir, "/", kSummaryFile));
  if (!text.ok()) return;
  simdjson::dom::parser parser;
  simdjson::dom::element earlier;
  if (parser.parse(*text).get(earlier) != simdjson::SUCCESS) {
    HR_LOG(kWarning) << dir << "/" << kSummaryFile << " is no JSON and is written anew";
    return;
  }
  double active = 0;
  int64_t throttled = 0;
  if (earlier["active_seconds"].get(active) == simdjson::SUCCESS) {
    summary->active += absl::Seconds(active);
  }
  if (earlier["throttled_answers"].get(throttled) == simdjson::SUCCESS) {
    summary->throttled += throttled;
  }
}

// The models of the job with what the logs say of them.
absl::StatusOr<std::vector<RunSummary::Model>> TallyModels(const JobConfig& job, int64_t rows) {
  std::vector<TokenPrices> prices;
  std::vector<RunSummary::Model> models;
  for (const ModelJob& model : job.models) {
    prices.push_back({model.price_input_usd, model.price_output_usd, model.price_cached_usd});
    models.emplace_back().name = model.label;
  }
  HR_RETURN_IF_ERROR(TallyFromLogs(Disk::Real(), job.output_dir, prices, &models));
  for (RunSummary::Model& model : models) model.tally.items = rows;
  return models;
}

}  // namespace

absl::StatusOr<RunSummary> WriteRunFiles(const JobConfig& job, const JobEnd& end,
                                         const RunFacts& facts) {
  Disk* disk = Disk::Real();
  RunSummary summary;
  summary.job = job.name;
  summary.state = StateOf(end);
  summary.reason = end.reason;
  summary.exit_code = static_cast<int>(end.exit_code);
  summary.version = facts.build;
  summary.dataset_path = job.dataset.path;
  summary.dataset_sha256 = facts.dataset_sha256;
  summary.rows = facts.rows;
  summary.started = facts.first_start;
  summary.starts = facts.starts;
  summary.ended = facts.started + facts.elapsed;
  summary.active = facts.elapsed;
  summary.passes = job.passes;
  summary.throttled = facts.throttled;
  AddEarlierParts(disk, job.output_dir, &summary);
  HR_ASSIGN_OR_RETURN(summary.models, TallyModels(job, facts.rows));
  HR_RETURN_IF_ERROR(WriteSummary(disk, job.output_dir, summary));
  if (job.csv) {
    CsvOptions options;
    options.guard_formulas = job.csv_safe;
    const absl::StatusOr<RunCheck> check = WriteResultsCsv(disk, job.output_dir, options);
    if (!check.ok()) return Annotate(check.status(), "results.csv");
  }
  return summary;
}

absl::StatusOr<double> SpentUsd(const JobConfig& job) {
  HR_ASSIGN_OR_RETURN(const std::vector<RunSummary::Model> models, TallyModels(job, 0));
  double spent = 0;
  for (const RunSummary::Model& model : models) spent += model.tally.cost_usd.value_or(0);
  return spent;
}

}  // namespace headrace
