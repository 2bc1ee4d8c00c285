#include "coordinator/dataset/scanner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "coordinator/job/nearest.h"

namespace headrace {
namespace {

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

}  // namespace

std::unique_ptr<RowRenderer> MakeRenderer(const RowPlan* plan) {
  return plan->format == DatasetFormat::kCsv ? MakeCsvRenderer(plan) : MakeJsonRenderer(plan);
}

void RenderRecord(const RowPlan& plan, const Record& record, RowRenderer* renderer,
                  RowStatistics* statistics, RenderedRow* row) {
  if (record.too_long) {
    row->custom_id = absl::StrCat(plan.id.has_value() ? "row:" : "", row->row.value());
    SetRowError(plan, "", absl::StrCat("is longer than ", FormatBytes(kMaxRecordBytes)), row);
    return;
  }
  renderer->Render(record, statistics, row);
  if (row->error.empty()) return;
  // A row that gives no request carries none.
  row->user.clear();
  row->system.clear();
  row->body.clear();
  row->messages_json.clear();
}

Scanner::Scanner(std::shared_ptr<InputFile> file, const FileShape* shape, const RowPlan* plan,
                 uint64_t limit, std::string scratch_dir, RowOrdering order)
    : file_(std::move(file)),
      shape_(*shape),
      plan_(*plan),
      limit_(limit),
      renderer_(MakeRenderer(plan)),
      ids_(std::move(scratch_dir)) {
  statistics_.present.resize(plan->fields.refs().size());
  if (order == RowOrdering::kPromptCache) order_.emplace();
}

absl::StatusOr<DatasetInfo> Scanner::Run(RowIndexTable* index) {
  Sha256 hash;
  HR_ASSIGN_OR_RETURN(RowStream stream, RowStream::Open(file_, shape_, &hash));
  Record record;
  while (stream.next_row().value() < limit_) {
    const RowIndex row = stream.next_row();
    HR_ASSIGN_OR_RETURN(const bool found, stream.Next(&record));
    if (!found) break;
    index->Add(row, {record.offset, record.line});
    HR_RETURN_IF_ERROR(TakeRow(record, row));
  }
  info_.blank_lines = stream.blank_lines();
  HR_RETURN_IF_ERROR(stream.Drain());
  info_.format = shape_.format;
  info_.bytes = file_->size();
  info_.sha256 = hash.Finish();
  HR_RETURN_IF_ERROR(CheckWhole());
  if (order_.has_value()) info_.order = order_->Finish();
  return std::move(info_);
}

absl::Status Scanner::TakeRow(const Record& record, RowIndex row) {
  row_.row = row;
  row_.line = record.line;
  for (std::string* text : {&row_.custom_id, &row_.user, &row_.system, &row_.expected, &row_.body,
                            &row_.url, &row_.messages_json, &row_.error}) {
    text->clear();
  }
  statistics_.remarks.clear();
  RenderRecord(plan_, record, renderer_.get(), &statistics_, &row_);
  ++info_.rows;
  if (order_.has_value()) {
    if (row.value() >= PrefixOrder::kMaxRows) {
      return Invalid(absl::StrCat("dataset.order: ", plan_.file, " has more than ",
                                  PrefixOrder::kMaxRows, " rows; take them as in the file"));
    }
    order_->Add(row_);
  }
  if (!row_.error.empty()) {
    // The whole file is in another encoding, most likely: every prompt would be damaged.
    if (const size_t valid = ValidUtf8Prefix(record.text); valid != record.text.size()) {
      return Invalid(absl::StrCat(row_.error, " (byte ", valid + 1,
                                  " of the line); convert the file to UTF-8"));
    }
    ++info_.bad_rows;
    AddProblem(row_.error);
  }
  if (!statistics_.remarks.empty()) ++info_.remarks;
  for (const std::string& remark : statistics_.remarks) {
    AddProblem(absl::StrCat(plan_.file, ":", record.line, ": ", remark));
  }
  const bool own_id = plan_.id.has_value() && row_.custom_id != absl::StrCat("row:", row.value());
  return own_id ? ids_.Add(row_.custom_id, row) : absl::OkStatus();
}

void Scanner::AddProblem(std::string problem) {
  if (info_.problems.size() < kMaxProblems) info_.problems.push_back(std::move(problem));
}

absl::Status Scanner::CheckWhole() {
  if (info_.rows == 0) return Invalid(absl::StrCat(plan_.file, ": has no rows"));
  HR_RETURN_IF_ERROR(CheckFieldsExist());
  if (info_.bad_rows == info_.rows) {
    return Invalid(absl::StrCat(
        "none of the ", info_.rows, " rows gives a request. The first: ", info_.problems[0],
        statistics_.names.empty()
            ? ""
            : absl::StrCat(". Fields of the first rows: ",
                           ListWords(std::vector<std::string>(statistics_.names.begin(),
                                                              statistics_.names.end())))));
  }
  return CheckIds();
}

absl::Status Scanner::CheckFieldsExist() const {
  const std::vector<std::string> names(statistics_.names.begin(), statistics_.names.end());
  if (names.empty()) return absl::OkStatus();  // no row was an object: another error says that
  for (size_t i = 0; i < statistics_.present.size(); ++i) {
    if (statistics_.present[i] > 0) continue;
    const FieldRef& ref = plan_.fields.refs()[i];
    const auto uses = [i](const PromptTemplate& form) {
      const std::vector<size_t>& fields = form.fields();
      return std::find(fields.begin(), fields.end(), i) != fields.end();
    };
    const absl::string_view which = uses(plan_.prompt)     ? "dataset.prompt"
                                    : uses(plan_.system)   ? "dataset.system"
                                    : uses(plan_.expected) ? "dataset.expected"
                                                           : "dataset.id";
    const std::string& root = std::get<std::string>(ref.steps[0]);
    // It is there, but no row could be read: another error says why.
    if (ref.steps.size() == 1 && statistics_.names.contains(root)) continue;
    return Invalid(absl::StrCat(which, ": no row of ", plan_.file, " has the field '",
                                ExcerptUtf8(ref.name, 60), "'; ",
                                DidYouMean(ref.steps.size() > 1 ? root : ref.name, names)));
  }
  return absl::OkStatus();
}

// Equal hashes are looked up in the file: for their lines, and since only equal ids count.
absl::Status Scanner::CheckIds() {
  if (!plan_.id.has_value()) return absl::OkStatus();
  HR_ASSIGN_OR_RETURN(const RowIds::Result result, ids_.Find());
  std::vector<std::string> found;
  for (const RowIds::Duplicate& duplicate : result.duplicates) {
    HR_ASSIGN_OR_RETURN(RowStream stream, RowStream::Open(file_, shape_, nullptr));
    RenderedRow rows[2];
    for (RenderedRow& row : rows) {
      const RowIndex wanted = &row == rows ? duplicate.first : duplicate.second;
      Record record;
      while (stream.next_row() <= wanted) {
        HR_ASSIGN_OR_RETURN(const bool more, stream.Next(&record));
        if (!more) break;
      }
      row.row = wanted;
      row.line = record.line;
      RenderRecord(plan_, record, renderer_.get(), nullptr, &row);
    }
    if (rows[0].custom_id != rows[1].custom_id) continue;
    found.push_back(absl::StrCat("'", ExcerptUtf8(rows[0].custom_id, 60), "' on lines ",
                                 rows[0].line, " and ", rows[1].line));
    if (found.size() == 3) break;  // each costs a pass over the file
  }
  if (found.empty()) return absl::OkStatus();
  std::string message = absl::StrCat(plan_.file, ": the id ", found[0], " is used twice");
  for (size_t i = 1; i < found.size(); ++i) absl::StrAppend(&message, "; ", found[i]);
  if (result.count > static_cast<int64_t>(found.size())) {
    absl::StrAppend(&message, "; ", result.count, " rows in all repeat an id");
  }
  return Invalid(absl::StrCat(message,
                              ". Ids must be unique; without dataset.id the row number "
                              "is the id"));
}

}  // namespace headrace
