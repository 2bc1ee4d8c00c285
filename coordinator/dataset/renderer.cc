#include "coordinator/dataset/renderer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "coordinator/job/nearest.h"

namespace headrace {
namespace {

constexpr size_t kMaxShownBytes = 60;

std::string Quoted(absl::string_view name) {
  return absl::StrCat("'", ExcerptUtf8(name, kMaxShownBytes), "'");
}

// CSV has columns and nothing below them: the whole name is the column.
absl::Status CheckColumns(const RowPlan& plan) {
  for (const FieldRef& ref : plan.fields.refs()) {
    if (std::find(plan.header.begin(), plan.header.end(), ref.name) != plan.header.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(plan.file, ":1: no column ", Quoted(ref.name),
                                                   "; ", DidYouMean(ref.name, plan.header)));
  }
  return absl::OkStatus();
}

// False with the row's error when a field of `form` has no value for it.
bool CheckFields(const RowPlan& plan, const PromptTemplate& form, absl::string_view which,
                 const std::vector<FieldValue>& values, const std::vector<std::string>& names,
                 RenderedRow* row) {
  for (size_t field : form.fields()) {
    const FieldRef& ref = plan.fields.refs()[field];
    const FieldValue& value = values[field];
    if (value.state == FieldValue::State::kAbsent) {
      SetRowError(plan, which,
                  absl::StrCat("the row has no field ", Quoted(ref.name), "; ",
                               DidYouMean(ref.name, names)),
                  row);
    } else if (!value.problem.empty()) {
      SetRowError(plan, which, absl::StrCat("field ", Quoted(ref.name), " ", value.problem), row);
    } else if (value.state == FieldValue::State::kNull && !ref.as_json) {
      SetRowError(plan, which, absl::StrCat("field ", Quoted(ref.name), " is null"), row);
    } else {
      continue;
    }
    return false;
  }
  return true;
}

// The row's id, also when the row cannot be used otherwise.
bool FillId(const RowPlan& plan, const std::vector<FieldValue>& values,
            const std::vector<std::string>& names, RenderedRow* row) {
  if (!plan.id.has_value()) {
    row->custom_id = absl::StrCat(row->row.value());
    return true;
  }
  // Cannot be mistaken for the number of a row or, most likely, for the id of another one.
  row->custom_id = absl::StrCat("row:", row->row.value());
  const FieldRef& ref = plan.fields.refs()[*plan.id];
  const FieldValue& value = values[*plan.id];
  const auto fail = [&](absl::string_view what) {
    SetRowError(plan, ref.name, what, row);
    return false;
  };
  if (value.state == FieldValue::State::kAbsent) {
    return fail(absl::StrCat("the row has no id; ", DidYouMean(ref.name, names)));
  }
  if (!value.problem.empty()) return fail(value.problem);
  if (value.state == FieldValue::State::kNull) return fail("the id is null");
  const bool number =
      value.state == FieldValue::State::kOther && !value.text.empty() &&
      (value.text[0] == '-' || absl::ascii_isdigit(static_cast<unsigned char>(value.text[0])));
  // The OpenAI Batch format has text there.
  if (plan.format == DatasetFormat::kOpenAiBatch && value.state != FieldValue::State::kText) {
    return fail("the id must be text in quotes");
  }
  if (value.state == FieldValue::State::kOther && !number) {
    return fail("the id must be text or a number");
  }
  if (absl::StripAsciiWhitespace(value.text).empty()) return fail("the id is blank");
  if (value.text.size() > kMaxIdBytes) {
    return fail(absl::StrCat("the id is longer than ", kMaxIdBytes, " bytes"));
  }
  row->custom_id = value.text;
  return true;
}

}  // namespace

void SetRowError(const RowPlan& plan, absl::string_view field, absl::string_view what,
                 RenderedRow* row) {
  row->error =
      absl::StrCat(plan.file, ":", row->line, ": ", field, field.empty() ? "" : ": ", what);
}

absl::StatusOr<RowPlan> MakeRowPlan(const DatasetJob& job, DatasetFormat format, char delimiter,
                                    std::vector<std::string> header) {
  RowPlan plan;
  plan.file = job.path;
  plan.format = format;
  plan.delimiter = delimiter;
  plan.header = std::move(header);
  const auto compile = [&plan](absl::string_view name, const std::string& text,
                               PromptTemplate* out) {
    absl::StatusOr<PromptTemplate> compiled = PromptTemplate::Compile(text, &plan.fields);
    if (!compiled.ok()) return Annotate(compiled.status(), absl::StrCat("dataset.", name));
    *out = *std::move(compiled);
    return absl::OkStatus();
  };
  HR_RETURN_IF_ERROR(compile("prompt", job.prompt, &plan.prompt));
  HR_RETURN_IF_ERROR(compile("system", job.system, &plan.system));
  HR_RETURN_IF_ERROR(compile("expected", job.expected, &plan.expected));
  if (format == DatasetFormat::kOpenAiBatch && !job.system.empty()) {
    return absl::InvalidArgumentError(
        "dataset.system: is not possible with an OpenAI Batch file, whose bodies are sent byte for "
        "byte");
  }
  const bool batch_id = format == DatasetFormat::kOpenAiBatch && job.id.empty();
  if (batch_id || !job.id.empty()) {
    absl::StatusOr<FieldRef> ref = ParseFieldRef(batch_id ? "custom_id" : job.id);
    if (!ref.ok()) return Annotate(ref.status(), "dataset.id");
    plan.id = plan.fields.Add(*ref);
  }
  if (format == DatasetFormat::kCsv) {
    if (plan.prompt.empty()) {
      const bool has_prompt =
          std::find(plan.header.begin(), plan.header.end(), "prompt") != plan.header.end();
      if (!has_prompt) {
        return absl::InvalidArgumentError(absl::StrCat("dataset.prompt: is missing, and ", job.path,
                                                       " has no column 'prompt'; columns are ",
                                                       ListWords(plan.header)));
      }
      HR_RETURN_IF_ERROR(compile("prompt", "{{prompt}}", &plan.prompt));
    }
    HR_RETURN_IF_ERROR(CheckColumns(plan));
  }
  return plan;
}

bool RenderTemplates(const RowPlan& plan, const std::vector<FieldValue>& values,
                     const std::vector<std::string>& names, RenderedRow* row) {
  if (!FillId(plan, values, names, row)) return false;
  if (!CheckFields(plan, plan.prompt, "prompt", values, names, row) ||
      !CheckFields(plan, plan.system, "system", values, names, row) ||
      !CheckFields(plan, plan.expected, "expected", values, names, row)) {
    return false;
  }
  std::vector<absl::string_view> texts(values.size());
  for (size_t i = 0; i < values.size(); ++i) texts[i] = values[i].text;
  plan.prompt.Render(texts, &row->user);
  plan.system.Render(texts, &row->system);
  plan.expected.Render(texts, &row->expected);
  if (!plan.prompt.empty() && absl::StripAsciiWhitespace(row->user).empty()) {
    SetRowError(plan, "prompt", "is empty for this row", row);
    return false;
  }
  return true;
}

}  // namespace headrace
