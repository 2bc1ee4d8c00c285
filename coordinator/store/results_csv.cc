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
#include "common/outcome/result_fields.h"
#include "coordinator/store/answer_text.h"

namespace headrace {
namespace {

constexpr absl::string_view kHeader =
    "custom_id,model,status,output,finish_reason,prompt_tokens,completion_tokens,total_ms,"
    "queue_ms,first_token_ms,attempts,error_class,error_message\r\n";
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

class CsvWriter {
 public:
  CsvWriter(File* file, const CsvOptions& options)
      : file_(file), options_(options), buffer_(kHeader) {}

  absl::Status Add(absl::string_view line) {
    HR_RETURN_IF_ERROR(parser_.Parse(line, &fields_));
    const bool ok = fields_.error_class == ErrorClass::kNone;
    Text(fields_.custom_id);
    Text(fields_.model);
    Text(ok ? "ok" : "failed");
    Text(answers_.Read(fields_.body));
    Text(fields_.finish_reason);
    Count(fields_.usage.prompt_tokens);
    Count(fields_.usage.completion_tokens);
    Plain(Ms(fields_.times.total));
    Plain(Ms(fields_.times.queue));
    Plain(fields_.times.first_token.has_value() ? Ms(*fields_.times.first_token) : "");
    Plain(absl::StrCat(fields_.attempts));
    Text(ok ? "" : fields_.status);
    AppendCsvCell(fields_.error_message, options_.guard_formulas, &buffer_);
    buffer_ += "\r\n";
    return buffer_.size() < kWriteBytes ? absl::OkStatus() : Flush();
  }

  absl::Status Flush() {
    HR_RETURN_IF_ERROR(file_->Append(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

 private:
  void Text(absl::string_view text) {
    AppendCsvCell(text, options_.guard_formulas, &buffer_);
    buffer_.push_back(',');
  }
  void Plain(absl::string_view text) { absl::StrAppend(&buffer_, text, ","); }
  // Unknown is empty, not 0.
  void Count(const std::optional<int64_t>& count) {
    Plain(count.has_value() ? absl::StrCat(*count) : "");
  }

  File* const file_;
  const CsvOptions options_;
  std::string buffer_;
  ResultLineParser parser_;
  ResultFields fields_;
  AnswerReader answers_;
};

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

absl::StatusOr<RunCheck> WriteResultsCsv(Disk* disk, const std::string& dir,
                                         const CsvOptions& options) {
  const std::string path = absl::StrCat(dir, "/", kCsvFile);
  const std::string temp = absl::StrCat(path, Disk::kTempSuffix);
  HR_RETURN_IF_ERROR(disk->Remove(temp));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk->OpenAppend(temp));
  CsvWriter writer(file.get(), options);
  // A line with a right checksum that is no JSON has no row; its item is still one of the run.
  int64_t unreadable = 0;
  HR_ASSIGN_OR_RETURN(RunCheck check,
                      ReadRun(disk, dir, [&](absl::string_view line, const ResultLineKey&) {
                        const absl::Status status = writer.Add(line);
                        if (!absl::IsInvalidArgument(status)) return status;
                        ++unreadable;
                        return absl::OkStatus();
                      }));
  check.damaged += unreadable;
  HR_RETURN_IF_ERROR(writer.Flush());
  HR_RETURN_IF_ERROR(file->DataSync());
  file.reset();
  HR_RETURN_IF_ERROR(disk->Rename(temp, path));
  HR_RETURN_IF_ERROR(disk->SyncDir(dir));
  return check;
}

}  // namespace headrace
