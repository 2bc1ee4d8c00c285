#include "cli/run/run_report.h"

#include "absl/strings/str_cat.h"
#include "cli/progress/text_width.h"
#include "common/base/units.h"
#include "common/outcome/error_class.h"

namespace headrace {
namespace {

constexpr int kExampleColumns = 200;

Tally Sum(const RunSummary& summary) {
  Tally sum;
  for (const RunSummary::Model& model : summary.models) sum.Merge(model.tally);
  return sum;
}

// "json: 90 whole, 7 fenced, 3 none"
void AppendJsonKinds(const Tally& sum, std::string* out) {
  absl::string_view separator = "json: ";
  for (int kind = 0; kind < kJsonKinds; ++kind) {
    const int64_t count = sum.json_kinds[static_cast<size_t>(kind)];
    if (count == 0) continue;
    absl::StrAppend(out, separator, count, " ", JsonKindName(static_cast<JsonKind>(kind)));
    separator = ", ";
  }
  if (sum.ok == 0) absl::StrAppend(out, separator, "no answers");
  if (sum.json_white_space_tails > 0) {
    absl::StrAppend(out, "; ", sum.json_white_space_tails, " end in endless white space");
  }
  out->push_back('\n');
}

}  // namespace

std::string RenderRunEnd(const JobConfig& job, const RunSummary& summary) {
  const Tally sum = Sum(summary);
  std::string out = absl::StrCat(RunStateName(summary.state), ": ", sum.ok, " of ", sum.items,
                                 " ok, ", sum.failed, " failed, ", sum.missing(), " open, in ",
                                 headrace::FormatDuration(summary.active));
  if (summary.active > absl::ZeroDuration()) {
    absl::StrAppend(&out, " (",
                    FormatCount(static_cast<double>(sum.ok + sum.failed) /
                                absl::ToDoubleMinutes(summary.active)),
                    " items/min)");
  }
  out.push_back('\n');
  if (!summary.reason.empty()) absl::StrAppend(&out, "reason: ", summary.reason, "\n");
  for (const auto& [error_class, count] : sum.failed_by_class) {
    absl::StrAppend(&out, "  ", ErrorClassName(error_class), ": ", count, " (",
                    GetErrorClassInfo(error_class).meaning, ")\n");
    const auto example = sum.example_by_class.find(error_class);
    if (example != sum.example_by_class.end() && !example->second.empty()) {
      absl::StrAppend(&out, "    e.g. ", FitText(example->second, kExampleColumns), "\n");
    }
  }
  for (const RunSummary::InFlight& pool : summary.in_flight) {
    absl::StrAppend(&out, "in flight: auto found ", pool.found, " for pool ", pool.pool, ": ",
                    pool.why, "\n");
  }
  if (summary.json) AppendJsonKinds(sum, &out);
  absl::StrAppend(&out, "results: ", job.output_dir, "/results.jsonl",
                  sum.failed > 0 ? ", errors.jsonl" : "", job.csv ? ", results.csv" : "",
                  ", summary.json\n");
  if (sum.missing() > 0) absl::StrAppend(&out, "the same command resumes where this one ended\n");
  return out;
}

}  // namespace headrace
