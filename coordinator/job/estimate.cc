#include "coordinator/job/estimate.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/quota/estimator.h"
#include "common/quota/quota.h"
#include "simdjson.h"

namespace headrace {
namespace {

namespace dom = simdjson::dom;

constexpr int kMaxDepth = 32;  // of messages; what is deeper is no text for a model

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Adds the texts of a chat request or of its messages: strings under the keys that hold text.
void CountTexts(dom::element element, std::string_view key, int depth,
                quota::PromptFeatures* features) {
  if (depth > kMaxDepth) return;
  if (element.is_string()) {
    for (std::string_view text_key :
         {"content", "text", "input", "prompt", "system", "instructions"}) {
      if (key == text_key) quota::CountFeatures(View(std::string_view(element)), features);
    }
  } else if (element.is_array()) {
    for (dom::element child : dom::array(element)) CountTexts(child, key, depth + 1, features);
  } else if (element.is_object()) {
    const dom::object object(element);
    std::string_view type;
    dom::element role;
    if (!object.at_key("role").get(role)) ++features->messages;
    if (!object.at_key("type").get_string().get(type) && absl::StrContains(View(type), "image")) {
      ++features->images;
      return;
    }
    for (auto [child_key, child] : object) CountTexts(child, child_key, depth + 1, features);
  }
}

// The request's own cap on output tokens, by any of the names it has in the APIs.
std::optional<int64_t> MaxOutput(dom::element request) {
  for (std::string_view key : {"max_tokens", "max_completion_tokens", "max_output_tokens"}) {
    int64_t value = 0;
    if (request.is_object() && !request.at_key(key).get_int64().get(value)) return value;
  }
  return std::nullopt;
}

// The countable properties of one row's request.
class FeatureReader {
 public:
  quota::PromptFeatures Read(const RenderedRow& row) {
    quota::PromptFeatures features;
    max_output_.reset();
    const std::string& json = row.body.empty() ? row.messages_json : row.body;
    dom::element root;
    if (!json.empty() && !parser_.parse(json).get(root)) {
      CountTexts(root, "", 0, &features);
      if (!row.body.empty()) max_output_ = MaxOutput(root);
    } else {
      quota::CountFeatures(row.user, &features);
      features.messages += 1;
    }
    if (!row.system.empty()) {
      quota::CountFeatures(row.system, &features);
      features.messages += 1;
    }
    return features;
  }
  std::optional<int64_t> max_output() const { return max_output_; }

 private:
  dom::parser parser_;
  std::optional<int64_t> max_output_;
};

std::optional<int64_t> MaxOutputOfParams(const std::string& params_json) {
  dom::parser parser;
  dom::element params;
  if (parser.parse(params_json).get(params)) return std::nullopt;
  return MaxOutput(params);
}

PoolEstimate EstimatePool(const PoolJob& pool, const std::vector<ModelEstimate>& models) {
  int64_t items = 0, input = 0, output = 0;
  for (const ModelEstimate& model : models) {
    if (model.pool != pool.name) continue;
    items += model.items;
    input += model.input_tokens;
    output += model.output_tokens;
  }
  const struct {
    absl::string_view name;
    int64_t need;
    int64_t limit;
  } dimensions[] = {{"requests/min", items, pool.requests_per_minute},
                    {"tokens/min", input + output, pool.tokens_per_minute},
                    {"input tokens/min", input, pool.input_tokens_per_minute},
                    {"output tokens/min", output, pool.output_tokens_per_minute}};
  PoolEstimate estimate;
  estimate.name = pool.name;
  for (const auto& dimension : dimensions) {
    if (dimension.limit == 0) continue;
    const double minutes = static_cast<double>(dimension.need) /
                           (static_cast<double>(dimension.limit) * quota::PoolSpec().utilisation);
    if (minutes * absl::Minutes(1) < estimate.time || dimension.need == 0) continue;
    estimate.time = minutes * absl::Minutes(1);
    estimate.limited_by = std::string(dimension.name);
  }
  return estimate;
}

void AddCosts(const JobConfig& job, JobEstimate* estimate) {
  for (size_t i = 0; i < job.models.size(); ++i) {
    const ModelJob& model = job.models[i];
    ModelEstimate& row = estimate->models[i];
    if (!model.price_input_usd.has_value() || !model.price_output_usd.has_value()) {
      estimate->cost_complete = false;
      continue;
    }
    row.cost_usd = (static_cast<double>(row.input_tokens) * *model.price_input_usd +
                    static_cast<double>(row.output_tokens) * *model.price_output_usd) /
                   1e6;
    estimate->cost_usd += *row.cost_usd;
  }
}

}  // namespace

absl::StatusOr<JobEstimate> EstimateJob(const JobConfig& job) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset,
                      Dataset::Open(InFileOrder(job.dataset)));
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<RowCursor> cursor, dataset->NewCursor());
  JobEstimate estimate;
  std::vector<std::unique_ptr<quota::TokenEstimator>> estimators;
  for (const ModelJob& model : job.models) {
    ModelEstimate row;
    row.label = model.label;
    row.pool = model.pool;
    estimate.models.push_back(std::move(row));
    estimators.push_back(
        std::make_unique<quota::TokenEstimator>(MaxOutputOfParams(model.params_json)));
  }
  FeatureReader reader;
  while (true) {
    HR_ASSIGN_OR_RETURN(const std::optional<RenderedRow> row,
                        cursor->ReadAt(RowIndex(static_cast<uint64_t>(estimate.rows))));
    if (!row.has_value()) break;
    ++estimate.rows;
    if (!row->error.empty()) {
      ++estimate.bad_rows;
      continue;
    }
    const quota::PromptFeatures features = reader.Read(*row);
    for (size_t i = 0; i < job.models.size(); ++i) {
      const quota::TokenEstimate tokens = estimators[i]->Estimate(features);
      ModelEstimate& model = estimate.models[i];
      ++model.items;
      model.input_tokens += tokens.input;
      model.output_tokens += std::min(tokens.output, reader.max_output().value_or(tokens.output));
    }
  }
  estimate.items = estimate.rows * static_cast<int64_t>(job.models.size());
  AddCosts(job, &estimate);
  for (const PoolJob& pool : job.pools) {
    estimate.pools.push_back(EstimatePool(pool, estimate.models));
    estimate.time = std::max(estimate.time, estimate.pools.back().time);
  }
  return estimate;
}

std::string RenderEstimate(const JobConfig& job, const JobEstimate& estimate) {
  std::string out = absl::StrCat(
      "items    ", estimate.items, " (", estimate.rows, " rows x ", estimate.models.size(),
      " models)", estimate.bad_rows > 0 ? ", " : "",
      estimate.bad_rows > 0 ? absl::StrCat(estimate.bad_rows, " rows give no request") : "", "\n");
  for (const ModelEstimate& model : estimate.models) {
    absl::StrAppend(&out, "model    ", model.label, ": about ",
                    FormatCount(static_cast<double>(model.input_tokens)), " input and ",
                    FormatCount(static_cast<double>(model.output_tokens)), " output tokens");
    if (model.cost_usd.has_value()) {
      absl::StrAppend(&out, absl::StrFormat(", %.2f USD", *model.cost_usd));
    }
    absl::StrAppend(&out, "\n");
  }
  for (const PoolEstimate& pool : estimate.pools) {
    absl::StrAppend(&out, "pool     ", pool.name, ": ",
                    pool.limited_by.empty()
                        ? "no limit per minute"
                        : absl::StrCat("at least ", headrace::FormatDuration(pool.time),
                                       ", limited by ", pool.limited_by),
                    "\n");
  }
  absl::StrAppend(&out, "cost     ",
                  estimate.cost_usd > 0 || estimate.cost_complete
                      ? absl::StrFormat("about %.2f USD", estimate.cost_usd)
                      : "unknown",
                  estimate.cost_complete ? "" : " (not every model has a price)", "\n");
  if (job.max_cost_usd > 0 && estimate.cost_usd > job.max_cost_usd) {
    absl::StrAppend(&out, absl::StrFormat("note     max_cost is %.2f USD: the run will stop before "
                                          "its end\n",
                                          job.max_cost_usd));
  }
  absl::StrAppend(
      &out, "time     ",
      estimate.time > absl::ZeroDuration()
          ? absl::StrCat("at least ", headrace::FormatDuration(estimate.time), " under the quotas")
          : "not limited by a quota",
      "; the provider's speed and retries come on top\n");
  return out;
}

}  // namespace headrace
