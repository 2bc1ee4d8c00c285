#include "coordinator/job/validate.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "coordinator/job/check_job.h"
#include "coordinator/job/schema_check.h"
#include "simdjson.h"

namespace headrace {
namespace {

constexpr size_t kMaxKeyBytes = 64 << 10;
constexpr size_t kMaxShownBody = 2000;

std::optional<std::string> SystemEnv(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, path);
  std::string text(kMaxKeyBytes, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, path);
  return text;
}

// Fills status and notice for a key that was found.
void CheckKeyText(const std::string& text, KeyCheck* check) {
  const absl::string_view key = absl::StripAsciiWhitespace(text);
  if (key.empty()) {
    check->notice = absl::StrCat(check->source, " is empty: calls go out without a key");
    return;
  }
  for (char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f) continue;
    check->status = absl::FailedPreconditionError(
        absl::StrCat(check->source,
                     " has a space, a control character or a character outside ASCII in the key"));
    return;
  }
  if (key.front() == '"' || key.front() == '\'') {
    check->status = absl::FailedPreconditionError(
        absl::StrCat(check->source, " has quotes around the key; remove them"));
    return;
  }
  if (key.size() != text.size()) {
    check->notice =
        absl::StrCat(check->source, " has white space around the key, which is dropped");
  }
}

// *text is what the source holds, if it could be read.
KeyCheck LookUpKey(const ApiKeySource& source, const ValidateOptions& options, std::string* text) {
  KeyCheck check;
  if (!source.env.empty()) {
    check.source = absl::StrCat("environment variable ", source.env);
    std::optional<std::string> value =
        options.get_env ? options.get_env(source.env) : SystemEnv(source.env);
    if (!value.has_value()) {
      check.status = absl::FailedPreconditionError(absl::StrCat(check.source, " is not set"));
      return check;
    }
    *text = *std::move(value);
  } else if (!source.file.empty()) {
    check.source = absl::StrCat("file ", source.file);
    absl::StatusOr<std::string> content = ReadKeyFile(source.file);
    if (!content.ok()) {
      check.status = absl::FailedPreconditionError(content.status().message());
      return check;
    }
    *text = *std::move(content);
  } else {
    check.source = "none";
    return check;
  }
  CheckKeyText(*text, &check);
  return check;
}

void CheckModels(const JobConfig& job, const ValidateOptions& options, Validation* out) {
  for (const ModelJob& model : job.models) {
    const KeyCheck check = CheckKey(model.api_key, options);
    if (!check.status.ok()) {
      out->errors.push_back(absl::StrCat(model.label, ": api_key: ", check.status.message()));
      out->credentials_missing = true;
    }
    if (!check.notice.empty())
      out->notices.push_back(absl::StrCat(model.label, ": ", check.notice));
    Validation::ModelCheck row;
    row.label = model.label;
    row.key = absl::StrCat(check.source, check.source == "none" ? ""
                                         : check.status.ok()    ? ", there"
                                                                : ", NOT USABLE");
    out->models.push_back(std::move(row));
  }
}

void AddSchemas(SchemaFindings findings, Validation* out) {
  for (std::string& error : findings.errors) out->errors.push_back(std::move(error));
  for (std::string& notice : findings.notices) out->notices.push_back(std::move(notice));
}

absl::Status ReadDataset(const JobConfig& job, const ValidateOptions& options, Validation* out) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset,
                      Dataset::Open(InFileOrder(job.dataset)));
  HR_ASSIGN_OR_RETURN(DatasetInfo info, dataset->Scan(options.scratch_dir));
  const int64_t rows = info.rows;
  out->dataset = std::move(info);
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<RowCursor> cursor, dataset->NewCursor());
  // Only bodies of batch files bring schemas of their own.
  const bool has_schemas = dataset->format() == DatasetFormat::kOpenAiBatch;
  RowSchemaCheck schemas(&job);
  for (int64_t i = 0; i < rows; ++i) {
    HR_ASSIGN_OR_RETURN(std::optional<RenderedRow> row,
                        cursor->ReadAt(RowIndex(static_cast<uint64_t>(i))));
    if (!row.has_value()) break;
    if (!row->error.empty()) continue;
    if (has_schemas) schemas.Add(row->body, row->line);
    if (!out->first_row.has_value()) out->first_row = *std::move(row);
    if (!has_schemas) break;
  }
  AddSchemas(schemas.Take(), out);
  return absl::OkStatus();
}

// Bodies of batch files go out as they are, so their model is theirs, not the job's.
void CheckBatchModel(const JobConfig& job, const RenderedRow& row, Validation* out) {
  if (row.body.empty()) return;
  simdjson::dom::parser parser;
  std::string_view name;
  if (parser.parse(row.body).at_key("model").get_string().get(name)) {
    out->notices.push_back(absl::StrCat(job.dataset.path, ":", row.line,
                                        ": body: has no 'model'; it is sent as it is"));
    return;
  }
  for (const ModelJob& model : job.models) {
    if (model.name == name) continue;
    out->notices.push_back(absl::StrCat(job.dataset.path, ":", row.line, ": body: asks for model '",
                                        ExcerptUtf8({name.data(), name.size()}, 60),
                                        "', the job for '", model.name,
                                        "'; bodies are sent as they are"));
  }
}

void NoteDataset(const DatasetInfo& info, Validation* out) {
  if (info.bad_rows > 0) {
    out->notices.push_back(absl::StrCat(info.bad_rows, " of ", info.rows,
                                        " rows give no request and will fail as bad_row"));
  }
  if (info.remarks > 0) {
    out->notices.push_back(absl::StrCat(info.remarks, " of ", info.rows,
                                        " rows have a picture that a provider will refuse"));
  }
  if (info.blank_lines > 0) {
    out->notices.push_back(absl::StrCat(info.blank_lines, " blank lines are skipped"));
  }
}

}  // namespace

KeyCheck CheckKey(const ApiKeySource& source, const ValidateOptions& options) {
  std::string text;
  return LookUpKey(source, options, &text);
}

absl::StatusOr<Secret> ReadCheckedKey(const ApiKeySource& source, const ValidateOptions& options) {
  std::string text;
  const KeyCheck check = LookUpKey(source, options, &text);
  if (!check.status.ok()) return absl::UnauthenticatedError(check.status.message());
  return Secret(std::string(absl::StripAsciiWhitespace(text)));
}

Validation ValidateJob(const JobConfig& job, const ValidateOptions& options) {
  Validation out;
  out.notices = JobNotices(job);
  CheckModels(job, options, &out);
  AddSchemas(CheckJobSchemas(job, options.job_file), &out);
  if (const absl::Status status = ReadDataset(job, options, &out); !status.ok()) {
    out.errors.emplace_back(status.message());
  }
  if (out.dataset.has_value()) NoteDataset(*out.dataset, &out);
  if (!out.first_row.has_value()) return out;
  CheckBatchModel(job, *out.first_row, &out);
  if (!options.preview) return out;
  for (size_t i = 0; i < job.models.size(); ++i) {
    absl::StatusOr<RequestPreview> preview = options.preview(job.models[i], *out.first_row);
    if (preview.ok()) {
      out.models[i].preview = *std::move(preview);
    } else {
      out.errors.push_back(absl::StrCat(job.models[i].label, ": ", preview.status().message()));
    }
  }
  return out;
}

std::string RenderValidation(const JobConfig& job, const Validation& validation) {
  std::string out;
  if (validation.dataset.has_value()) {
    const DatasetInfo& info = *validation.dataset;
    absl::StrAppend(&out, "dataset  ", ShownUrl(job.dataset.path), ": ",
                    DatasetFormatName(info.format), info.compression.empty() ? "" : ", ",
                    info.compression, ", ", info.rows, " rows, ", FormatBytes(info.bytes),
                    ", sha256 ", info.sha256.substr(0, 12), "\n");
    absl::StrAppend(&out, "items    ", info.rows * static_cast<int64_t>(job.models.size()), " (",
                    info.rows, " rows x ", job.models.size(), " models)\n");
    for (const std::string& problem : info.problems)
      absl::StrAppend(&out, "row      ", problem, "\n");
    const int64_t all = info.bad_rows + info.remarks;
    if (all > static_cast<int64_t>(info.problems.size())) {
      absl::StrAppend(&out, "row      ... ", all, " rows in all\n");
    }
  }
  for (const Validation::ModelCheck& model : validation.models) {
    absl::StrAppend(&out, "model    ", model.label, ", key: ", model.key, "\n");
    if (!model.preview.has_value()) continue;
    absl::StrAppend(&out, "  POST ", model.preview->url, "\n  ",
                    ExcerptUtf8(model.preview->body, kMaxShownBody), "\n");
  }
  for (const std::string& notice : validation.notices)
    absl::StrAppend(&out, "note     ", notice, "\n");
  for (const std::string& error : validation.errors)
    absl::StrAppend(&out, "error    ", error, "\n");
  absl::StrAppend(&out, validation.ok() ? "valid: the job can run\n" : "not valid\n");
  return out;
}

}  // namespace headrace
