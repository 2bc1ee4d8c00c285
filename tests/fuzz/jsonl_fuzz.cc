// Splits the input into JSONL records and renders each in every way. The first byte is the size of
// the pieces in which the rest arrives.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/utf8.h"
#include "coordinator/dataset/renderer.h"
#include "coordinator/dataset/scanner.h"
#include "simdjson.h"
#include "tests/fuzz/string_source.h"

namespace headrace {
namespace {

std::vector<RowPlan> Plans() {
  std::vector<RowPlan> plans;
  DatasetJob job;
  job.path = "f";
  plans.push_back(*MakeRowPlan(job, DatasetFormat::kJsonl, ',', {}));
  plans.push_back(*MakeRowPlan(job, DatasetFormat::kOpenAiBatch, ',', {}));
  job.prompt = "{{a}} {{b.c}} {{d[1].e}} {{f | json}}";
  job.system = "{{a}}";
  job.expected = "{{b}}";
  job.id = "id";
  plans.push_back(*MakeRowPlan(job, DatasetFormat::kJsonl, ',', {}));
  return plans;
}

void CheckRow(const RenderedRow& row) {
  HR_CHECK(IsValidUtf8(row.user) && IsValidUtf8(row.system) && IsValidUtf8(row.expected));
  HR_CHECK(!row.custom_id.empty());
  if (!row.error.empty()) {
    HR_CHECK(row.user.empty() && row.body.empty() && row.messages_json.empty());
    return;
  }
  simdjson::dom::parser parser;
  for (const std::string* json : {&row.body, &row.messages_json}) {
    HR_CHECK(json->empty() || !parser.parse(*json).error());
  }
  HR_CHECK(!row.user.empty() || !row.body.empty() || !row.messages_json.empty());
}

}  // namespace
}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static const std::vector<RowPlan>* const plans = new std::vector<RowPlan>(Plans());
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const RowPlan& plan : *plans) {
    StringSource source(text, size_t{1} + data[0]);
    const std::unique_ptr<RecordReader> reader = MakeLineReader(&source, RecordStart());
    const std::unique_ptr<RowRenderer> renderer = MakeRenderer(&plan);
    RowStatistics statistics;
    statistics.present.resize(plan.fields.refs().size());
    Record record;
    for (uint64_t i = 0;; ++i) {
      const absl::StatusOr<bool> found = reader->Next(&record);
      HR_CHECK(found.ok());
      if (!*found) break;
      RenderedRow row;
      row.row = RowIndex(i);
      row.line = record.line;
      RenderRecord(plan, record, renderer.get(), &statistics, &row);
      CheckRow(row);
    }
  }
  return 0;
}
