#include "coordinator/job/schema_check.h"

#include <array>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/schema_lint.h"
#include "simdjson.h"

namespace headrace {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;
using Faults = std::vector<SchemaFault>;

constexpr size_t kMaxFormatName = 64;  // OpenAI API reference, ResponseFormatJsonSchema.name

bool Strict(element format) {
  bool strict = false;
  return format["strict"].get(strict) == simdjson::SUCCESS && strict;
}

bool IsJsonSchema(element format) {
  std::string_view type;
  return format["type"].get(type) == simdjson::SUCCESS && type == "json_schema";
}

// {name, schema, strict}: where OpenAI's formats keep their schema.
void CheckOpenAiFormat(element format, const std::string& at, Faults* faults) {
  std::string_view name;
  bool good = format["name"].get(name) == simdjson::SUCCESS && !name.empty() &&
              name.size() <= kMaxFormatName;
  for (const char c : name) {
    good = good && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-');
  }
  if (!good) {
    faults->push_back(
        {absl::StrCat(at, ".name"),
         absl::StrCat("is needed: letters, digits, '_' and '-', at most ", kMaxFormatName)});
  }
  element schema;
  const std::string schema_at = absl::StrCat(at, ".schema");
  if (format["schema"].get(schema) != simdjson::SUCCESS) {
    if (Strict(format)) faults->push_back({schema_at, "is missing"});
  } else if (Strict(format)) {
    LintStrictSchema(schema, schema_at, SchemaRules::kOpenAi, faults);
  } else {
    LintPatterns(schema, schema_at, faults);
  }
}

void CheckOpenAi(element request, const std::string& at, Faults* faults) {
  element format;
  // Chat completions.
  if (request["response_format"].get(format) == simdjson::SUCCESS && IsJsonSchema(format)) {
    const std::string where = absl::StrCat(at, "response_format.json_schema");
    element inner;
    if (format["json_schema"].get(inner) == simdjson::SUCCESS && inner.is_object()) {
      CheckOpenAiFormat(inner, where, faults);
    } else {
      faults->push_back({where, "is missing"});
    }
  }
  // Responses.
  if (request["text"]["format"].get(format) == simdjson::SUCCESS && IsJsonSchema(format)) {
    CheckOpenAiFormat(format, absl::StrCat(at, "text.format"), faults);
  }
  array tools;
  if (request["tools"].get(tools) != simdjson::SUCCESS) return;
  size_t i = 0;
  for (element tool : tools) {
    std::string where = absl::StrCat(at, "tools[", i++, "]");
    element function;
    if (tool["function"].get(function) == simdjson::SUCCESS) {  // chat; at the top in responses
      tool = function;
      where += ".function";
    }
    element schema;
    if (!Strict(tool) || tool["parameters"].get(schema) != simdjson::SUCCESS) continue;
    LintStrictSchema(schema, where + ".parameters", SchemaRules::kOpenAi, faults);
  }
}

void CheckAnthropic(element request, const std::string& at, Faults* faults) {
  const auto check_format = [&](element format, const std::string& where) {
    element schema;
    if (!IsJsonSchema(format)) return;
    if (format["schema"].get(schema) != simdjson::SUCCESS) {
      faults->push_back({where + ".schema", "is missing"});
    } else {
      LintStrictSchema(schema, where + ".schema", SchemaRules::kAnthropic, faults);
    }
  };
  element format;
  if (request["output_format"].get(format) == simdjson::SUCCESS) {
    check_format(format, absl::StrCat(at, "output_format"));
  }
  if (request["output_config"]["format"].get(format) == simdjson::SUCCESS) {
    check_format(format, absl::StrCat(at, "output_config.format"));
  }
  array tools;
  if (request["tools"].get(tools) != simdjson::SUCCESS) return;
  size_t i = 0;
  for (const element tool : tools) {
    const std::string where = absl::StrCat(at, "tools[", i++, "].input_schema");
    element schema;
    if (!Strict(tool) || tool["input_schema"].get(schema) != simdjson::SUCCESS) continue;
    LintStrictSchema(schema, where, SchemaRules::kAnthropic, faults);
  }
}

bool IsUnder(absl::string_view host, absl::string_view domain) {
  return host == domain || absl::EndsWith(host, absl::StrCat(".", domain));
}

// The host of a finished job's endpoint, in lower case.
std::string HostOf(absl::string_view endpoint) {
  const size_t scheme = endpoint.find("://");
  if (scheme != absl::string_view::npos) endpoint.remove_prefix(scheme + 3);
  return absl::AsciiStrToLower(endpoint.substr(0, endpoint.find_first_of(":/?#")));
}

// Who gets the schemas, as far as the rules differ.
struct Receiver {
  bool anthropic = false;
  bool own_host = false;  // the vendor itself, which surely enforces its rules

  bool operator==(const Receiver&) const = default;
};

Receiver ReceiverOf(const ModelJob& model) {
  const std::string host = HostOf(model.endpoint);
  Receiver receiver;
  receiver.anthropic = model.provider == "anthropic";
  receiver.own_host = receiver.anthropic
                          ? IsUnder(host, "anthropic.com")
                          : IsUnder(host, "openai.com") || IsUnder(host, "openai.azure.com");
  return receiver;
}

// Nothing to look for; a tool's schema is not called one.
bool HasNoSchemas(absl::string_view request) {
  return !absl::StrContains(request, "schema") && !absl::StrContains(request, "strict");
}

Faults CheckRequest(element request, const std::string& at, Receiver receiver) {
  Faults faults;
  if (receiver.anthropic) {
    CheckAnthropic(request, at, &faults);
  } else {
    CheckOpenAi(request, at, &faults);
  }
  return faults;
}

// Adds what `faults` mean at the receiver, each with `prefix` before it.
void Report(const Faults& faults, const std::string& prefix, Receiver receiver,
            SchemaFindings* out) {
  using Kind = SchemaFault::Kind;
  size_t errors = 0;
  const SchemaFault* elsewhere = nullptr;
  for (const SchemaFault& fault : faults) {
    std::string text = absl::StrCat(prefix, fault.at, ": ", fault.what);
    if (fault.kind == Kind::kEverywhere || (fault.kind == Kind::kVendor && receiver.own_host)) {
      if (++errors <= kMaxSchemaErrors) out->errors.push_back(std::move(text));
    } else if (fault.kind == Kind::kVendor) {
      if (elsewhere == nullptr) elsewhere = &fault;
    } else if (receiver.own_host) {
      out->notices.push_back(std::move(text));
    }
  }
  if (errors > kMaxSchemaErrors) {
    out->errors.push_back(
        absl::StrCat(prefix, "has ", errors - kMaxSchemaErrors, " more faults in its schemas"));
  }
  if (elsewhere != nullptr) {
    out->notices.push_back(absl::StrCat(
        prefix, elsewhere->at, ": ", elsewhere->what, ", in the strict mode of ",
        receiver.anthropic ? "Anthropic" : "OpenAI", "; whether this endpoint minds is not known"));
  }
}

}  // namespace

SchemaFindings CheckJobSchemas(const JobConfig& job, absl::string_view file) {
  SchemaFindings findings;
  simdjson::dom::parser parser;
  for (size_t i = 0; i < job.models.size(); ++i) {
    const ModelJob& model = job.models[i];
    element params;
    if (!model.check_schema || HasNoSchemas(model.params_json) ||
        parser.parse(model.params_json).get(params) != simdjson::SUCCESS) {
      continue;
    }
    const Receiver receiver = ReceiverOf(model);
    const std::string prefix =
        absl::StrCat(file, file.empty() ? "" : ": ", "models[", i, "] (", model.label, "): ");
    Report(CheckRequest(params, "params.", receiver), prefix, receiver, &findings);
  }
  return findings;
}

class RowSchemaCheck::Impl {
 public:
  explicit Impl(const JobConfig* job) : path_(job->dataset.path) {
    for (const ModelJob& model : job->models) {
      if (!model.check_schema) continue;
      const Receiver receiver = ReceiverOf(model);
      bool known = false;
      for (const auto& [other, label] : receivers_) known = known || other == receiver;
      if (!known) receivers_.emplace_back(receiver, model.label);
    }
  }

  void Add(absl::string_view body, int64_t line) {
    element request;
    if (receivers_.empty() || full_ || HasNoSchemas(body) ||
        parser_.parse(body.data(), body.size()).get(request) != simdjson::SUCCESS) {
      return;
    }
    std::string schemas;
    for (std::string_view key :
         {"response_format", "text", "tools", "output_format", "output_config"}) {
      element value;
      if (request[key].get(value) != simdjson::SUCCESS) continue;
      absl::StrAppend(&schemas, absl::string_view(key.data(), key.size()), simdjson::minify(value));
    }
    if (schemas.empty() || seen_.count(std::hash<std::string>()(schemas)) > 0) return;
    if (seen_.size() == kMaxDistinct) {
      full_ = true;
      findings_.notices.push_back(absl::StrCat(path_, ":", line, ": has one schema more than ",
                                               kMaxDistinct, "; from here on none is checked"));
      return;
    }
    seen_.insert(std::hash<std::string>()(schemas));
    for (const auto& [receiver, label] : receivers_) {
      if (findings_.errors.size() > kMaxSchemaErrors) break;
      Report(CheckRequest(request, "body.", receiver),
             absl::StrCat(path_, ":", line, ": (", label, "): "), receiver, &findings_);
    }
  }

  SchemaFindings Take() { return std::move(findings_); }

 private:
  const std::string path_;
  std::vector<std::pair<Receiver, std::string>> receivers_;  // and a model of each
  simdjson::dom::parser parser_;
  std::unordered_set<size_t> seen_;  // hashes
  bool full_ = false;
  SchemaFindings findings_;
};

RowSchemaCheck::RowSchemaCheck(const JobConfig* job) : impl_(std::make_unique<Impl>(job)) {}

RowSchemaCheck::~RowSchemaCheck() = default;

void RowSchemaCheck::Add(absl::string_view body, int64_t line) { impl_->Add(body, line); }

SchemaFindings RowSchemaCheck::Take() { return impl_->Take(); }

}  // namespace headrace
