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
  absl::StrAppend(&out, "results: ", job.output_dir, "/results.jsonl",
                  sum.failed > 0 ? ", errors.jsonl" : "", job.csv ? ", results.csv" : "",
                  ", summary.json\n");
  if (sum.missing() > 0) absl::StrAppend(&out, "the same command resumes where this one ended\n");
  return out;
}

}  // namespace headrace
