#include "coordinator/job/yaml_fields.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "coordinator/job/nearest.h"
#include "yaml-cpp/eventhandler.h"

namespace headrace {
namespace {

constexpr size_t kMaxShownBytes = 40;

int LineOfByte(absl::string_view text, size_t at) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + at, '\n'));
}

int LineOfNode(const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? 0 : mark.line + 1;
}

// yaml-cpp replaces bad UTF-8 silently and takes byte 4 as the end of the file: both are found
// here.
absl::Status CheckText(absl::string_view text, const YamlDocument& document) {
  if (text.size() > kMaxJobFileBytes) {
    return document.ErrorAt(0, "", absl::StrCat("is larger than ", FormatBytes(kMaxJobFileBytes)));
  }
  const size_t valid = ValidUtf8Prefix(text);
  if (valid != text.size()) {
    return document.ErrorAt(LineOfByte(text, valid), "", "is not UTF-8");
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
      return document.ErrorAt(LineOfByte(text, i), "",
                              absl::StrCat("has a control character (byte ", int{c}, ")"));
    }
  }
  return absl::OkStatus();
}

// Counts documents, and nothing else.
class DocumentCounter : public YAML::EventHandler {
 public:
  int documents() const { return documents_; }
  const YAML::Mark& start() const { return start_; }  // of the last one

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++documents_;
    start_ = mark;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int documents_ = 0;
  YAML::Mark start_;
};

// The line where a second document begins. YAML::LoadAll() must not see such text: on a stray '}'
// it makes empty documents without end (yaml-cpp 0.7).
std::optional<int> LineOfSecondDocument(absl::string_view text) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  DocumentCounter counter;
  while (counter.documents() < 2 && parser.HandleNextDocument(counter)) {
  }
  if (counter.documents() < 2) return std::nullopt;
  return counter.start().line + 1;
}

}  // namespace

std::string Describe(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (!node.IsScalar()) return "nothing";
  const std::string& text = node.Scalar();
  if (absl::StartsWith(text, "sk-") || text.size() > kMaxShownBytes) return "this text";
  return absl::StrCat("'", ExcerptUtf8(text, kMaxShownBytes), "'");
}

absl::Status YamlDocument::ErrorAt(int line, absl::string_view field,
                                   absl::string_view what) const {
  std::string message = file;
  if (line > 0) absl::StrAppend(&message, ":", line);
  if (!field.empty()) absl::StrAppend(&message, ": ", field);
  return absl::InvalidArgumentError(absl::StrCat(message, ": ", what));
}

absl::Status YamlDocument::Error(const YAML::Node& node, absl::string_view field,
                                 absl::string_view what) const {
  const int line = LineOfNode(node);
  return ErrorAt(line > 0 ? line : LineOf(field), field, what);
}

int YamlDocument::LineOf(absl::string_view field) const {
  while (true) {
    const auto it = lines.find(std::string(field));
    if (it != lines.end()) return it->second;
    const size_t end = field.find_last_of(".[");
    if (end == absl::string_view::npos) return 0;
    field = field.substr(0, end);
  }
}

absl::StatusOr<YamlDocument> LoadYaml(absl::string_view text, absl::string_view file) {
  YamlDocument document;
  document.file = std::string(file);
  HR_RETURN_IF_ERROR(CheckText(text, document));
  try {
    if (const std::optional<int> line = LineOfSecondDocument(text)) {
      return document.ErrorAt(*line, "", "text after the job's end; a job file has one document");
    }
    document.root = YAML::Load(std::string(text));
    if (document.root.IsNull()) return document.ErrorAt(0, "", "is empty");
  } catch (const YAML::Exception& e) {
    return document.ErrorAt(e.mark.is_null() ? 0 : e.mark.line + 1, "",
                            absl::StrCat("is not valid YAML: ", e.msg));
  } catch (const std::exception& e) {
    return document.ErrorAt(0, "", absl::StrCat("is not valid YAML: ", e.what()));
  }
  return document;
}

absl::StatusOr<YamlFields> YamlFields::Open(YamlDocument* document, const YAML::Node& node,
                                            absl::string_view path,
                                            absl::Span<const absl::string_view> known) {
  if (!node.IsMap()) {
    return document->Error(node, path, absl::StrCat("must be a mapping, not ", Describe(node)));
  }
  YamlFields fields(document, path);
  for (const auto& pair : node) {
    if (!pair.first.IsScalar()) {
      return document->Error(pair.first, path, "has a key that is not a word");
    }
    const std::string& key = pair.first.Scalar();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string shown = ExcerptUtf8(key, kMaxShownBytes);
      return document->Error(pair.first, fields.PathOf(shown),
                             absl::StrCat("unknown key; ", DidYouMean(key, known)));
    }
    if (fields.Find(key).has_value()) {
      return document->Error(pair.first, fields.PathOf(key), "is given twice");
    }
    if (pair.second.IsNull()) {
      return document->Error(pair.first, fields.PathOf(key),
                             "has no value; leave the key out to get its default");
    }
    document->lines[fields.PathOf(key)] = LineOfNode(pair.first);
    fields.entries_.push_back({key, pair.second});
  }
  return fields;
}

std::optional<YAML::Node> YamlFields::Find(absl::string_view key) const {
  for (const Entry& entry : entries_) {
    if (entry.key == key) return entry.value;
  }
  return std::nullopt;
}

std::string YamlFields::PathOf(absl::string_view key) const {
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
}

absl::Status YamlFields::Error(absl::string_view key, absl::string_view what) const {
  const std::string field = PathOf(key);
  return document_->ErrorAt(document_->LineOf(field), field, what);
}

absl::StatusOr<const YamlFields::Entry*> YamlFields::Scalar(absl::string_view key,
                                                            absl::string_view wanted) const {
  for (const Entry& entry : entries_) {
    if (entry.key != key) continue;
    if (entry.value.IsScalar()) return &entry;
    return Error(key, absl::StrCat("must be ", wanted, ", not ", Describe(entry.value)));
  }
  return nullptr;
}

absl::Status YamlFields::Read(absl::string_view key, std::string* out) const {
  HR_ASSIGN_OR_RETURN(const Entry* entry, Scalar(key, "text"));
  if (entry != nullptr) *out = entry->value.Scalar();
  return absl::OkStatus();
}

absl::Status YamlFields::Read(absl::string_view key, bool* out) const {
  HR_ASSIGN_OR_RETURN(const Entry* entry, Scalar(key, "true or false"));
  if (entry == nullptr) return absl::OkStatus();
  const std::string text = absl::AsciiStrToLower(entry->value.Scalar());
  if (text != "true" && text != "false") {
    return Error(key, absl::StrCat("must be true or false, not ", Describe(entry->value)));
  }
  *out = text == "true";
  return absl::OkStatus();
}

absl::Status YamlFields::Read(absl::string_view key, absl::Duration* out) const {
  HR_ASSIGN_OR_RETURN(const Entry* entry, Scalar(key, "a duration like 120s or 500ms"));
  if (entry == nullptr) return absl::OkStatus();
  const absl::StatusOr<absl::Duration> value = ParseDuration(entry->value.Scalar());
  if (!value.ok()) return Error(key, value.status().message());
  *out = *value;
  return absl::OkStatus();
}

absl::Status YamlFields::Read(absl::string_view key, double* out) const {
  HR_ASSIGN_OR_RETURN(const Entry* entry, Scalar(key, "a number"));
  if (entry == nullptr) return absl::OkStatus();
  double value = 0;
  if (!absl::SimpleAtod(entry->value.Scalar(), &value) || !std::isfinite(value)) {
    return Error(key, absl::StrCat("must be a number, not ", Describe(entry->value)));
  }
  *out = value;
  return absl::OkStatus();
}

absl::Status YamlFields::Read(absl::string_view key, std::optional<double>* out) const {
  if (!Find(key).has_value()) return absl::OkStatus();
  double value = 0;
  HR_RETURN_IF_ERROR(Read(key, &value));
  *out = value;
  return absl::OkStatus();
}

absl::Status YamlFields::Read(absl::string_view key, int64_t* out) const {
  HR_ASSIGN_OR_RETURN(const Entry* entry, Scalar(key, "a count like 500, 10k or 5M"));
  if (entry == nullptr) return absl::OkStatus();
  const absl::StatusOr<int64_t> value = ParseCount(entry->value.Scalar());
  if (!value.ok()) return Error(key, value.status().message());
  *out = *value;
  return absl::OkStatus();
}

absl::Status YamlFields::Read(absl::string_view key, int* out) const {
  if (!Find(key).has_value()) return absl::OkStatus();
  int64_t value = 0;
  HR_RETURN_IF_ERROR(Read(key, &value));
  if (value > std::numeric_limits<int>::max()) return Error(key, "is too large");
  *out = static_cast<int>(value);
  return absl::OkStatus();
}

}  // namespace headrace
