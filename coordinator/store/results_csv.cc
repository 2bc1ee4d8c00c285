#include "coordinator/store/results_csv.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "coordinator/store/answer_text.h"

namespace headrace {
namespace {

constexpr absl::string_view kHeader =
    "custom_id,model,status,output,finish_reason,prompt_tokens,completion_tokens,total_ms,"
    "queue_ms,first_token_ms,attempts,error_class,error_message";
constexpr size_t kWriteBytes = size_t{1} << 20;

// Characters that are not shown before the first one that is: space, no-break space, zero-width
// space, non-joiner and joiner, word joiner, byte order mark.
constexpr absl::string_view kInvisible[] = {
    " ",           "\xC2\xA0", "\xE2\x80\x8B", "\xE2\x80\x8C", "\xE2\x80\x8D", "\xE2\x81\xA0",
    "\xEF\xBB\xBF"};
// What starts a formula (OWASP "CSV Injection", with LF), and the full-width forms of = + - @.
constexpr absl::string_view kFormulaStarts[] = {
    "=",           "+", "-", "@", "\t", "\r", "\n", "\xEF\xBC\x9D", "\xEF\xBC\x8B", "\xEF\xBC\x8D",
    "\xEF\xBC\xA0"};

void SkipDigits(absl::string_view* text) {
  while (!text->empty() && absl::ascii_isdigit(static_cast<unsigned char>(text->front()))) {
    text->remove_prefix(1);
  }
}

// "-12", "-0.5", "-1e9": a number, not a formula.
bool IsNegativeNumber(absl::string_view text) {
  if (text.empty() || text.front() != '-') return false;
  text.remove_prefix(1);
  const size_t before = text.size();
  SkipDigits(&text);
  if (text.size() == before) return false;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    SkipDigits(&text);
  }
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
    const size_t exponent = text.size();
    SkipDigits(&text);
    if (text.size() == exponent) return false;
  }
  return text.empty();
}

bool LooksLikeFormula(absl::string_view text) {
  for (bool skipped = true; skipped;) {
    skipped = false;
    for (const absl::string_view invisible : kInvisible) {
      if (!absl::StartsWith(text, invisible)) continue;
      text.remove_prefix(invisible.size());
      skipped = true;
    }
  }
  for (const absl::string_view start : kFormulaStarts) {
    if (absl::StartsWith(text, start)) return !IsNegativeNumber(text);
  }
  return false;
}

std::string Ms(absl::Duration duration) {
  return absl::StrFormat("%.3f", absl::ToDoubleMilliseconds(duration));
}

}  // namespace

void AppendCsvCell(absl::string_view text, bool guard_formulas, std::string* out) {
  const bool guard = guard_formulas && LooksLikeFormula(text);
  const bool quote = text.find_first_of(",\"\r\n") != absl::string_view::npos;
  if (quote) out->push_back('"');
  if (guard) out->push_back('\'');
  if (quote) {
    for (const char c : text) out->append(c == '"' ? 2 : 1, c);
    out->push_back('"');
  } else {
    out->append(text.data(), text.size());
  }
}

class ResultsCsv::Writer {
 public:
  Writer(Disk* disk, const std::string& dir, const CsvOptions& options)
      : disk_(disk),
        dir_(dir),
        path_(absl::StrCat(dir, "/", kCsvFile)),
        temp_(absl::StrCat(path_, Disk::kTempSuffix)),
        options_(options),
        buffer_(absl::StrCat(kHeader, options_.json ? ",json\r\n" : "\r\n")),
        status_(Open()) {}

  absl::Status Add(const ResultFields& fields) {
    if (!status_.ok()) return status_;
    const bool ok = fields.error_class == ErrorClass::kNone;
    Text(fields.custom_id);
    Text(fields.model);
    Text(ok ? "ok" : "failed");
    const absl::string_view json_kind = Answer(fields, ok);
    Text(fields.finish_reason);
    Count(fields.usage.prompt_tokens);
    Count(fields.usage.completion_tokens);
    Plain(Ms(fields.times.total));
    Plain(Ms(fields.times.queue));
    Plain(fields.times.first_token.has_value() ? Ms(*fields.times.first_token) : "");
    Plain(absl::StrCat(fields.attempts));
    Text(ok ? "" : fields.status);
    AppendCsvCell(fields.error_message, options_.guard_formulas, &buffer_);
    if (options_.json) absl::StrAppend(&buffer_, ",", json_kind);
    buffer_ += "\r\n";
    if (buffer_.size() >= kWriteBytes) status_ = Flush();
    return status_;
  }

  absl::Status Finish() {
    HR_RETURN_IF_ERROR(status_);
    HR_RETURN_IF_ERROR(Flush());
    HR_RETURN_IF_ERROR(file_->DataSync());
    file_.reset();
    HR_RETURN_IF_ERROR(disk_->Rename(temp_, path_));
    return disk_->SyncDir(dir_);
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status Open() {
    HR_RETURN_IF_ERROR(disk_->Remove(temp_));
    HR_ASSIGN_OR_RETURN(file_, disk_->OpenAppend(temp_));
    return absl::OkStatus();
  }
  absl::Status Flush() {
    HR_RETURN_IF_ERROR(file_->Append(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }
  // The cell of the answer. Gives the name of its kind, for answers that are looked at for JSON.
  absl::string_view Answer(const ResultFields& fields, bool ok) {
    if (!options_.json || !ok) {
      Text(answers_.Read(fields.body));
      return "";
    }
    std::string text;
    const JsonAnswer answer = answers_.ReadJson(fields.body, fields.finish_reason, &text);
    Text(answer.json.empty() ? absl::string_view(text) : answer.json);
    return JsonKindName(answer.kind);
  }
  void Text(absl::string_view text) {
    AppendCsvCell(text, options_.guard_formulas, &buffer_);
    buffer_.push_back(',');
  }
  void Plain(absl::string_view text) { absl::StrAppend(&buffer_, text, ","); }
  // Unknown is empty, not 0.
  void Count(const std::optional<int64_t>& count) {
    Plain(count.has_value() ? absl::StrCat(*count) : "");
  }

  Disk* const disk_;
  const std::string dir_;
  const std::string path_;
  const std::string temp_;
  const CsvOptions options_;
  std::string buffer_;
  AnswerReader answers_;
  std::unique_ptr<File> file_;
  absl::Status status_;
};

ResultsCsv::ResultsCsv(Disk* disk, const std::string& dir, const CsvOptions& options)
    : writer_(std::make_unique<Writer>(disk, dir, options)) {}

ResultsCsv::~ResultsCsv() = default;

absl::Status ResultsCsv::Add(const ResultFields* fields) {
  return fields != nullptr ? writer_->Add(*fields) : writer_->status();
}

absl::Status ResultsCsv::Finish() && { return writer_->Finish(); }

absl::StatusOr<RunCheck> WriteResultsCsv(Disk* disk, const std::string& dir,
                                         const CsvOptions& options) {
  ResultsCsv csv(disk, dir, options);
  HR_ASSIGN_OR_RETURN(
      RunCheck check,
      ReadRunFields(disk, dir, [&](const ResultLineKey&, const ResultFields* fields) {
        return csv.Add(fields);
      }));
  HR_RETURN_IF_ERROR(std::move(csv).Finish());
  return check;
}

}  // namespace headrace
