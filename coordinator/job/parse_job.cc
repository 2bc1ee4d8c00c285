#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "coordinator/job/check_job.h"
#include "coordinator/job/job.h"
#include "coordinator/job/nearest.h"
#include "coordinator/job/yaml_fields.h"
#include "coordinator/job/yaml_json.h"

namespace headrace {
namespace {

constexpr absl::string_view kJobKeys[] = {
    "job",    "job_weight", "dataset",    "pools",    "models",        "batch",     "retry",
    "passes", "output",     "max_failed", "max_cost", "max_in_flight", "stragglers"};
constexpr absl::string_view kDatasetKeys[] = {"path", "prompt", "system", "expected",
                                              "id",   "limit",  "order",  "api_key"};
constexpr absl::string_view kPoolKeys[] = {"requests_per_minute",
                                           "tokens_per_minute",
                                           "input_tokens_per_minute",
                                           "output_tokens_per_minute",
                                           "requests_per_day",
                                           "tokens_per_day",
                                           "max_in_flight",
                                           "profile",
                                           "window",
                                           "requests_window",
                                           "guard",
                                           "burst",
                                           "utilisation",
                                           "ramp_start",
                                           "ramp_growth",
                                           "charge"};
constexpr absl::string_view kModelKeys[] = {"name",
                                            "label",
                                            "provider",
                                            "endpoint",
                                            "api_key",
                                            "pool",
                                            "params",
                                            "stream",
                                            "check_schema",
                                            "weight",
                                            "price",
                                            "connect_timeout",
                                            "first_byte_timeout",
                                            "silence_timeout",
                                            "progress_timeout",
                                            "total_timeout",
                                            "ca_file",
                                            "headers"};
constexpr absl::string_view kApiKeyKeys[] = {"env", "file"};
constexpr absl::string_view kPriceKeys[] = {"input", "output", "cached"};
constexpr absl::string_view kBatchKeys[] = {"size", "deadline", "on_failure"};
constexpr absl::string_view kRetryKeys[] = {"attempts", "first_delay", "max_delay", "jitter",
                                            "max_retry_after"};
constexpr absl::string_view kStragglerKeys[] = {"split", "hedge"};
constexpr absl::string_view kOutputKeys[] = {"dir", "csv", "csv_safe", "json"};

class JobReader {
 public:
  JobReader(YamlDocument* document, JobConfig* job) : document_(document), job_(job) {}

  absl::Status Read() {
    HR_ASSIGN_OR_RETURN(const YamlFields root,
                        YamlFields::Open(document_, document_->root, "", kJobKeys));
    HR_RETURN_IF_ERROR(root.Read("job", &job_->name));
    HR_RETURN_IF_ERROR(root.Read("job_weight", &job_->job_weight));
    HR_RETURN_IF_ERROR(ReadDataset(root));
    HR_RETURN_IF_ERROR(ReadPools(root));
    HR_RETURN_IF_ERROR(ReadModels(root));
    HR_RETURN_IF_ERROR(ReadBatch(root));
    HR_RETURN_IF_ERROR(ReadRetry(root));
    HR_RETURN_IF_ERROR(root.Read("passes", &job_->passes));
    HR_RETURN_IF_ERROR(ReadStragglers(root));
    HR_RETURN_IF_ERROR(ReadOutput(root));
    HR_RETURN_IF_ERROR(root.Read("max_cost", &job_->max_cost_usd));
    HR_RETURN_IF_ERROR(ReadMaxFailed(root));
    return ReadInFlight(root, &job_->max_in_flight, &job_->auto_in_flight);
  }

 private:
  absl::Status ReadDataset(const YamlFields& root) {
    const auto node = root.Find("dataset");
    if (!node.has_value()) return absl::OkStatus();
    HR_ASSIGN_OR_RETURN(const YamlFields fields,
                        YamlFields::Open(document_, *node, "dataset", kDatasetKeys));
    HR_RETURN_IF_ERROR(fields.Read("path", &job_->dataset.path));
    HR_RETURN_IF_ERROR(fields.Read("prompt", &job_->dataset.prompt));
    HR_RETURN_IF_ERROR(fields.Read("system", &job_->dataset.system));
    HR_RETURN_IF_ERROR(fields.Read("expected", &job_->dataset.expected));
    HR_RETURN_IF_ERROR(fields.Read("id", &job_->dataset.id));
    HR_RETURN_IF_ERROR(ReadApiKey(fields, &job_->dataset.api_key));
    HR_RETURN_IF_ERROR(fields.Read("limit", &job_->dataset.limit));
    return ReadOrder(fields);
  }

  absl::Status ReadPools(const YamlFields& root) {
    const auto node = root.Find("pools");
    if (!node.has_value()) return absl::OkStatus();
    if (!node->IsMap()) {
      return root.Error("pools", absl::StrCat("must be a mapping of names to limits, like main: "
                                              "{tokens_per_minute: 5M}, not ",
                                              Describe(*node)));
    }
    for (const auto& pair : *node) {
      if (!pair.first.IsScalar()) return root.Error("pools", "has a name that is not a word");
      PoolJob pool;
      pool.name = pair.first.Scalar();
      const std::string path = absl::StrCat("pools.", ExcerptUtf8(pool.name, 40));
      for (const PoolJob& other : job_->pools) {
        if (other.name == pool.name) return document_->Error(pair.first, path, "is given twice");
      }
      document_->lines[path] = pair.first.Mark().line + 1;
      HR_ASSIGN_OR_RETURN(const YamlFields fields,
                          YamlFields::Open(document_, pair.second, path, kPoolKeys));
      HR_RETURN_IF_ERROR(ReadPool(fields, &pool));
      job_->pools.push_back(std::move(pool));
    }
    return absl::OkStatus();
  }

  absl::Status ReadPool(const YamlFields& fields, PoolJob* pool) {
    HR_RETURN_IF_ERROR(fields.Read("requests_per_minute", &pool->requests_per_minute));
    HR_RETURN_IF_ERROR(fields.Read("tokens_per_minute", &pool->tokens_per_minute));
    HR_RETURN_IF_ERROR(fields.Read("input_tokens_per_minute", &pool->input_tokens_per_minute));
    HR_RETURN_IF_ERROR(fields.Read("output_tokens_per_minute", &pool->output_tokens_per_minute));
    HR_RETURN_IF_ERROR(fields.Read("requests_per_day", &pool->requests_per_day));
    HR_RETURN_IF_ERROR(fields.Read("tokens_per_day", &pool->tokens_per_day));
    HR_RETURN_IF_ERROR(ReadInFlight(fields, &pool->max_in_flight, &pool->auto_in_flight));
    HR_RETURN_IF_ERROR(fields.Read("profile", &pool->profile));
    HR_RETURN_IF_ERROR(fields.Read("window", &pool->window));
    HR_RETURN_IF_ERROR(fields.Read("requests_window", &pool->requests_window));
    HR_RETURN_IF_ERROR(ReadIfGiven(fields, "guard", &pool->guard));
    HR_RETURN_IF_ERROR(ReadIfGiven(fields, "burst", &pool->burst));
    HR_RETURN_IF_ERROR(fields.Read("utilisation", &pool->utilisation));
    HR_RETURN_IF_ERROR(ReadIfGiven(fields, "ramp_start", &pool->ramp_start));
    HR_RETURN_IF_ERROR(fields.Read("ramp_growth", &pool->ramp_growth));
    return fields.Read("charge", &pool->charge);
  }

  template <typename T>
  static absl::Status ReadIfGiven(const YamlFields& fields, absl::string_view key,
                                  std::optional<T>* out) {
    if (!fields.Find(key).has_value()) return absl::OkStatus();
    T value{};
    HR_RETURN_IF_ERROR(fields.Read(key, &value));
    *out = value;
    return absl::OkStatus();
  }

  absl::Status ReadModels(const YamlFields& root) {
    const auto node = root.Find("models");
    if (!node.has_value()) return absl::OkStatus();
    if (!node->IsSequence()) {
      return root.Error(
          "models",
          absl::StrCat("must be a list, one '- {name: ...}' per model, not ", Describe(*node)));
    }
    for (const auto& element : *node) {
      const std::string path = absl::StrCat("models[", job_->models.size(), "]");
      document_->lines[path] = element.Mark().line + 1;
      HR_ASSIGN_OR_RETURN(const YamlFields fields,
                          YamlFields::Open(document_, element, path, kModelKeys));
      ModelJob model;
      HR_RETURN_IF_ERROR(ReadModel(fields, &model));
      job_->models.push_back(std::move(model));
    }
    return absl::OkStatus();
  }

  absl::Status ReadModel(const YamlFields& fields, ModelJob* model) {
    HR_RETURN_IF_ERROR(fields.Read("name", &model->name));
    HR_RETURN_IF_ERROR(fields.Read("label", &model->label));
    HR_RETURN_IF_ERROR(fields.Read("provider", &model->provider));
    HR_RETURN_IF_ERROR(fields.Read("endpoint", &model->endpoint));
    HR_RETURN_IF_ERROR(fields.Read("pool", &model->pool));
    HR_RETURN_IF_ERROR(fields.Read("stream", &model->stream));
    HR_RETURN_IF_ERROR(fields.Read("check_schema", &model->check_schema));
    HR_RETURN_IF_ERROR(fields.Read("weight", &model->weight));
    HR_RETURN_IF_ERROR(fields.Read("connect_timeout", &model->connect_timeout));
    HR_RETURN_IF_ERROR(fields.Read("first_byte_timeout", &model->first_byte_timeout));
    HR_RETURN_IF_ERROR(fields.Read("silence_timeout", &model->silence_timeout));
    HR_RETURN_IF_ERROR(fields.Read("progress_timeout", &model->progress_timeout));
    HR_RETURN_IF_ERROR(fields.Read("total_timeout", &model->total_timeout));
    HR_RETURN_IF_ERROR(fields.Read("ca_file", &model->ca_file));
    HR_RETURN_IF_ERROR(ReadApiKey(fields, &model->api_key));
    HR_RETURN_IF_ERROR(ReadParams(fields, &model->params_json));
    HR_RETURN_IF_ERROR(ReadPrice(fields, model));
    return ReadHeaders(fields, model);
  }

  absl::Status ReadApiKey(const YamlFields& fields, ApiKeySource* source) {
    const auto node = fields.Find("api_key");
    if (!node.has_value()) return absl::OkStatus();
    if (!node->IsMap()) {
      return fields.Error("api_key",
                          "a key never stands in a job file; name where it is: "
                          "api_key: {env: NAME_OF_VARIABLE} or api_key: {file: PATH}");
    }
    HR_ASSIGN_OR_RETURN(const YamlFields source_fields,
                        YamlFields::Open(document_, *node, fields.PathOf("api_key"), kApiKeyKeys));
    HR_RETURN_IF_ERROR(source_fields.Read("env", &source->env));
    return source_fields.Read("file", &source->file);
  }

  absl::Status ReadParams(const YamlFields& fields, std::string* params_json) {
    const auto node = fields.Find("params");
    if (!node.has_value()) return absl::OkStatus();
    if (!node->IsMap()) {
      return fields.Error("params", absl::StrCat("must be a mapping, not ", Describe(*node)));
    }
    HR_ASSIGN_OR_RETURN(*params_json, YamlToJson(*document_, *node, fields.PathOf("params")));
    return absl::OkStatus();
  }

  absl::Status ReadPrice(const YamlFields& fields, ModelJob* model) {
    const auto node = fields.Find("price");
    if (!node.has_value()) return absl::OkStatus();
    HR_ASSIGN_OR_RETURN(const YamlFields price,
                        YamlFields::Open(document_, *node, fields.PathOf("price"), kPriceKeys));
    HR_RETURN_IF_ERROR(price.Read("input", &model->price_input_usd));
    HR_RETURN_IF_ERROR(price.Read("output", &model->price_output_usd));
    return price.Read("cached", &model->price_cached_usd);
  }

  absl::Status ReadHeaders(const YamlFields& fields, ModelJob* model) {
    const auto node = fields.Find("headers");
    if (!node.has_value()) return absl::OkStatus();
    const std::string path = fields.PathOf("headers");
    if (!node->IsMap()) return fields.Error("headers", "must be a mapping of names to text");
    for (const auto& pair : *node) {
      if (!pair.first.IsScalar() || !pair.second.IsScalar()) {
        return document_->Error(pair.first, path, "must be a mapping of names to text");
      }
      const std::string name_path = absl::StrCat(path, ".", ExcerptUtf8(pair.first.Scalar(), 40));
      document_->lines[name_path] = pair.first.Mark().line + 1;
      if (!model->headers.emplace(pair.first.Scalar(), pair.second.Scalar()).second) {
        return document_->Error(pair.first, name_path, "is given twice");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadBatch(const YamlFields& root) {
    const auto node = root.Find("batch");
    if (!node.has_value()) return absl::OkStatus();
    HR_ASSIGN_OR_RETURN(const YamlFields fields,
                        YamlFields::Open(document_, *node, "batch", kBatchKeys));
    HR_RETURN_IF_ERROR(fields.Read("size", &job_->batch_size));
    HR_RETURN_IF_ERROR(fields.Read("deadline", &job_->batch_deadline));
    std::string on_failure;
    HR_RETURN_IF_ERROR(fields.Read("on_failure", &on_failure));
    if (on_failure.empty()) return absl::OkStatus();
    std::vector<absl::string_view> names;
    for (OnFailure value : {OnFailure::kCollect, OnFailure::kFailFast, OnFailure::kMaxFailed}) {
      names.push_back(OnFailureName(value));
      if (on_failure == names.back()) {
        job_->on_failure = value;
        return absl::OkStatus();
      }
    }
    return fields.Error("on_failure",
                        absl::StrCat("'", ExcerptUtf8(on_failure, 40), "' is no policy; ",
                                     DidYouMean(on_failure, names)));
  }

  absl::Status ReadOrder(const YamlFields& fields) {
    std::string order;
    HR_RETURN_IF_ERROR(fields.Read("order", &order));
    if (order.empty()) return absl::OkStatus();
    const absl::StatusOr<RowOrdering> parsed = ParseRowOrdering(order);
    if (!parsed.ok()) return fields.Error("order", parsed.status().message());
    job_->dataset.order = *parsed;
    return absl::OkStatus();
  }

  absl::Status ReadRetry(const YamlFields& root) {
    const auto node = root.Find("retry");
    if (!node.has_value()) return absl::OkStatus();
    HR_ASSIGN_OR_RETURN(const YamlFields fields,
                        YamlFields::Open(document_, *node, "retry", kRetryKeys));
    HR_RETURN_IF_ERROR(fields.Read("attempts", &job_->attempts));
    HR_RETURN_IF_ERROR(fields.Read("first_delay", &job_->first_delay));
    HR_RETURN_IF_ERROR(fields.Read("max_delay", &job_->max_delay));
    HR_RETURN_IF_ERROR(fields.Read("jitter", &job_->jitter));
    return fields.Read("max_retry_after", &job_->max_retry_after);
  }

  absl::Status ReadStragglers(const YamlFields& root) {
    const auto node = root.Find("stragglers");
    if (!node.has_value()) return absl::OkStatus();
    HR_ASSIGN_OR_RETURN(const YamlFields fields,
                        YamlFields::Open(document_, *node, "stragglers", kStragglerKeys));
    HR_RETURN_IF_ERROR(fields.Read("split", &job_->split_stragglers));
    return fields.Read("hedge", &job_->hedge_stragglers);
  }

  absl::Status ReadOutput(const YamlFields& root) {
    const auto node = root.Find("output");
    if (!node.has_value()) return absl::OkStatus();
    HR_ASSIGN_OR_RETURN(const YamlFields fields,
                        YamlFields::Open(document_, *node, "output", kOutputKeys));
    HR_RETURN_IF_ERROR(fields.Read("dir", &job_->output_dir));
    HR_RETURN_IF_ERROR(fields.Read("csv", &job_->csv));
    HR_RETURN_IF_ERROR(fields.Read("csv_safe", &job_->csv_safe));
    return fields.Read("json", &job_->json);
  }

  absl::Status ReadMaxFailed(const YamlFields& root) {
    std::string text;
    HR_RETURN_IF_ERROR(root.Read("max_failed", &text));
    if (text.empty()) return absl::OkStatus();
    const absl::StatusOr<FailureLimit> limit = ParseFailureLimit(text);
    if (!limit.ok()) return root.Error("max_failed", limit.status().message());
    job_->max_failed = *limit;
    return absl::OkStatus();
  }

  // A count, or auto.
  static absl::Status ReadInFlight(const YamlFields& fields, int64_t* count, bool* is_auto) {
    const auto node = fields.Find("max_in_flight");
    *is_auto = node.has_value() && node->IsScalar() && node->Scalar() == "auto";
    if (*is_auto) return absl::OkStatus();
    const absl::Status read = fields.Read("max_in_flight", count);
    if (read.ok()) return read;
    return fields.Error("max_in_flight",
                        absl::StrCat("must be a count or auto, not ", Describe(*node)));
  }

  YamlDocument* document_;
  JobConfig* job_;
};

}  // namespace

absl::string_view RowOrderingName(RowOrdering order) {
  return order == RowOrdering::kPromptCache ? "prompt_cache" : "file";
}

absl::StatusOr<RowOrdering> ParseRowOrdering(absl::string_view text) {
  std::vector<absl::string_view> names;
  for (RowOrdering order : {RowOrdering::kFile, RowOrdering::kPromptCache}) {
    names.push_back(RowOrderingName(order));
    if (text == names.back()) return order;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", ExcerptUtf8(text, 40), "' is no order; ", DidYouMean(text, names)));
}

DatasetJob InFileOrder(DatasetJob dataset) {
  dataset.order = RowOrdering::kFile;
  return dataset;
}

absl::string_view OnFailureName(OnFailure on_failure) {
  switch (on_failure) {
    case OnFailure::kCollect:
      return "collect";
    case OnFailure::kFailFast:
      return "fail_fast";
    case OnFailure::kMaxFailed:
      return "max_failed";
  }
  return "collect";
}

absl::StatusOr<FailureLimit> ParseFailureLimit(absl::string_view text) {
  FailureLimit limit;
  absl::string_view number = text;
  if (absl::ConsumeSuffix(&number, "%")) {
    double percent = 0;
    if (absl::SimpleAtod(number, &percent) && percent >= 0 && percent <= 100) {
      limit.share = percent / 100;
      return limit;
    }
  } else if (const absl::StatusOr<int64_t> count = ParseCount(text); count.ok()) {
    limit.count = *count;
    return limit;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", ExcerptUtf8(text, 40), "' is neither a number of items nor a share from 0% to 100%"));
}

absl::StatusOr<JobConfig> ParseJob(absl::string_view yaml, absl::string_view file_name) {
  HR_ASSIGN_OR_RETURN(YamlDocument document, LoadYaml(yaml, file_name));
  JobConfig job;
  try {
    HR_RETURN_IF_ERROR(JobReader(&document, &job).Read());
  } catch (const std::exception& e) {  // yaml-cpp's node accessors
    return document.ErrorAt(0, "", absl::StrCat("cannot be read: ", e.what()));
  }
  if (const std::optional<FieldError> bad = FindBadValue(job)) {
    return document.ErrorAt(document.LineOf(bad->field), bad->field, bad->what);
  }
  return job;
}

absl::StatusOr<JobConfig> ReadJobFile(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, absl::StrCat("job file ", path));
  std::string text(kMaxJobFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, absl::StrCat("job file ", path));
  return ParseJob(text, path);
}

}  // namespace headrace
