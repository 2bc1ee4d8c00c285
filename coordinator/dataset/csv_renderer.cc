#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json_writer.h"
#include "coordinator/dataset/renderer.h"
#include "simdjson.h"

namespace headrace {
namespace {

class CsvRenderer : public RowRenderer {
 public:
  explicit CsvRenderer(const RowPlan* plan) : plan_(*plan), values_(plan->fields.refs().size()) {
    for (const FieldRef& ref : plan_.fields.refs()) {
      const auto column = std::find(plan_.header.begin(), plan_.header.end(), ref.name);
      columns_.push_back(static_cast<size_t>(column - plan_.header.begin()));
    }
  }

  void Render(const Record& record, RowStatistics* statistics, RenderedRow* row) override {
    row->custom_id = absl::StrCat(plan_.id.has_value() ? "row:" : "", row->row.value());
    if (!simdjson::validate_utf8(record.text.data(), record.text.size())) {
      SetRowError(plan_, "", "is not UTF-8", row);
      return;
    }
    const std::string problem = ParseCsvRecord(record.text, plan_.delimiter, &cells_);
    if (!problem.empty()) {
      SetRowError(plan_, "", problem, row);
      return;
    }
    if (cells_.size() != plan_.header.size()) {
      SetRowError(
          plan_, "",
          absl::StrCat("has ", cells_.size(), " cells, but the header has ", plan_.header.size()),
          row);
      return;
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
      FieldValue& value = values_[i];
      value.state = FieldValue::State::kText;
      value.text.clear();
      if (plan_.fields.refs()[i].as_json) {
        AppendJsonString(cells_[columns_[i]], &value.text);
      } else {
        value.text = cells_[columns_[i]];
      }
      if (statistics != nullptr) ++statistics->present[i];
    }
    RenderTemplates(plan_, values_, plan_.header, row);
  }

 private:
  const RowPlan& plan_;
  std::vector<size_t> columns_;  // of each field of the plan
  std::vector<std::string> cells_;
  std::vector<FieldValue> values_;
};

}  // namespace

std::unique_ptr<RowRenderer> MakeCsvRenderer(const RowPlan* plan) {
  return std::make_unique<CsvRenderer>(plan);
}

}  // namespace headrace
