#include "coordinator/run/run_summary.h"

#include <simdjson.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/job/check_job.h"
#include "coordinator/store/disk.h"
#include "coordinator/store/results_csv.h"
#include "coordinator/store/run_reader.h"

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

std::vector<TokenPrices> PricesOf(const JobConfig& job) {
  std::vector<TokenPrices> prices;
  for (const ModelJob& model : job.models) {
    prices.push_back({model.price_input_usd, model.price_output_usd, model.price_cached_usd});
  }
  return prices;
}

// Reads the logs once, for the models' tallies and, if it is wanted, for `csv`. Errors of `csv` are
// its own: the summary is written all the same.
absl::Status ReadLogs(Disk* disk, const JobConfig& job, RunSummary* summary, ResultsCsv* csv) {
  HR_ASSIGN_OR_RETURN(RunTally tally,
                      RunTally::Make(disk, job.output_dir, PricesOf(job), job.json));
  const absl::StatusOr<RunCheck> check = ReadRunFields(
      disk, job.output_dir, [&](const ResultLineKey& key, const ResultFields* fields) {
        tally.Add(key, fields);
        if (csv != nullptr) csv->Add(fields).IgnoreError();
        return absl::OkStatus();
      });
  if (!check.ok()) return check.status();
  std::vector<Tally> tallies = std::move(tally).Finish();
  for (size_t i = 0; i < tallies.size(); ++i) {
    tallies[i].items = summary->rows;
    summary->models.push_back({job.models[i].label, std::move(tallies[i])});
  }
  return absl::OkStatus();
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
  summary.dataset_path = ShownUrl(job.dataset.path);
  summary.dataset_sha256 = facts.dataset_sha256;
  summary.rows = facts.rows;
  summary.started = facts.first_start;
  summary.starts = facts.starts;
  summary.ended = facts.started + facts.elapsed;
  summary.active = facts.elapsed;
  summary.passes = job.passes;
  summary.throttled = facts.throttled;
  for (const FoundInFlight& found : facts.found_in_flight) {
    summary.in_flight.push_back({found.pool, found.found, found.why});
  }
  summary.json = job.json;
  AddEarlierParts(disk, job.output_dir, &summary);
  std::optional<ResultsCsv> csv;
  const CsvOptions csv_options = {.guard_formulas = job.csv_safe, .json = job.json};
  if (job.csv) csv.emplace(disk, job.output_dir, csv_options);
  HR_RETURN_IF_ERROR(ReadLogs(disk, job, &summary, csv.has_value() ? &*csv : nullptr));
  HR_RETURN_IF_ERROR(WriteSummary(disk, job.output_dir, summary));
  if (csv.has_value()) {
    HR_RETURN_IF_ERROR(Annotate(std::move(*csv).Finish(), kCsvFile));
  }
  return summary;
}

absl::StatusOr<double> SpentUsd(const JobConfig& job) {
  HR_ASSIGN_OR_RETURN(const std::vector<Tally> tallies,
                      TallyFromLogs(Disk::Real(), job.output_dir, PricesOf(job)));
  double spent = 0;
  for (const Tally& tally : tallies) spent += tally.cost_usd.value_or(0);
  return spent;
}

}  // namespace headrace
