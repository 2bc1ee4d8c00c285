#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/units.h"
#include "common/quota/profiles.h"
#include "coordinator/job/check_job.h"
#include "coordinator/job/job.h"
#include "coordinator/job/yaml_json.h"

namespace headrace {
namespace {

absl::Status Invalid(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

// "data/gsm8k test.jsonl.gz" gives "gsm8k-test"; what is left of nothing is "job".
std::string NameFromPath(absl::string_view path) {
  path = path.substr(0, path.find_first_of("?#"));
  const size_t slash = path.rfind('/');
  if (slash != absl::string_view::npos) path = path.substr(slash + 1);
  for (absl::string_view suffix : {".gz", ".zst", ".jsonl", ".ndjson", ".csv", ".tsv", ".json"}) {
    absl::ConsumeSuffix(&path, suffix);
  }
  std::string name;
  for (char c : path.substr(0, kMaxNameBytes)) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    name += plain ? c : '-';
  }
  while (!name.empty() && (name[0] == '.' || name[0] == '-')) name.erase(0, 1);
  return name.empty() ? "job" : name;
}

// The first of "word", "word#2", "word#3", ... that is not in *taken.
std::string Unique(const std::string& word, std::set<std::string>* taken) {
  std::string unique = word;
  for (int n = 2; !taken->insert(unique).second; ++n) unique = absl::StrCat(word, "#", n);
  return unique;
}

// One name can stand for two configurations, say with two temperatures: outputs are told apart by
// label.
void FillLabels(JobConfig* job) {
  std::set<std::string> taken;
  for (const ModelJob& model : job->models) {
    if (!model.label.empty()) taken.insert(model.label);
  }
  for (ModelJob& model : job->models) {
    if (model.label.empty()) model.label = Unique(model.name, &taken);
  }
}

// Models of one account share a pool even when nothing is known of its limits, so that a 429 of one
// holds back the others; models of other accounts are left alone.
void FillPools(JobConfig* job) {
  if (job->pools.size() == 1) {
    for (ModelJob& model : job->models) {
      if (model.pool.empty()) model.pool = job->pools[0].name;
    }
    return;
  }
  if (!job->pools.empty()) return;
  std::vector<std::pair<const ModelJob*, std::string>> accounts;
  std::set<std::string> taken;
  for (ModelJob& model : job->models) {
    if (!model.pool.empty()) continue;
    for (const auto& [other, pool] : accounts) {
      if (other->endpoint == model.endpoint && other->api_key == model.api_key) model.pool = pool;
    }
    if (!model.pool.empty()) continue;
    model.pool = Unique("default", &taken);
    accounts.emplace_back(&model, model.pool);
    PoolJob pool;
    pool.name = model.pool;
    job->pools.push_back(std::move(pool));
  }
}

// What the endpoints of a pool's models have in common.
void FillProfiles(JobConfig* job) {
  for (PoolJob& pool : job->pools) {
    if (!pool.profile.empty() && pool.profile != "auto") continue;
    const quota::Profile* common = nullptr;
    for (const ModelJob& model : job->models) {
      if (model.pool != pool.name) continue;
      const quota::Profile* own = quota::ProfileOfEndpoint(model.provider, model.endpoint);
      if (common == nullptr) common = own;
      if (common != own) common = quota::FindProfile("generic");
    }
    pool.profile = common == nullptr ? "generic" : std::string(common->name);
  }
}

absl::Status FillParams(JobConfig* job) {
  for (size_t i = 0; i < job->models.size(); ++i) {
    ModelJob& model = job->models[i];
    const std::string field = absl::StrCat("models[", i, "].params");
    if (model.params_json.empty()) model.params_json = "{}";
    absl::StatusOr<std::string> params = CanonicalJsonObject(model.params_json);
    if (!params.ok()) return Invalid(field, params.status().message());
    model.params_json = *std::move(params);
    for (absl::string_view key : {"model", "messages", "stream"}) {
      if (!HasTopLevelKey(model.params_json, key)) continue;
      return Invalid(absl::StrCat(field, ".", key),
                     key == "stream" ? "belongs beside params: stream: true or false"
                                     : "is set by headrace itself");
    }
  }
  return absl::OkStatus();
}

std::string Key(const ModelJob& model, size_t i) {
  return absl::StrCat("models[", i, "] (", model.label, ")");
}

}  // namespace

absl::Status FinishJob(JobConfig* job) {
  if (const std::optional<FieldError> bad = FindBadValue(*job)) {
    return Invalid(bad->field, bad->what);
  }
  if (const std::optional<FieldError> gap = FindGap(*job)) return Invalid(gap->field, gap->what);
  if (absl::Status status = FillParams(job); !status.ok()) return status;
  if (job->name.empty()) job->name = NameFromPath(job->dataset.path);
  if (job->output_dir.empty()) job->output_dir = absl::StrCat("runs/", job->name);
  FillLabels(job);
  FillPools(job);
  FillProfiles(job);
  return absl::OkStatus();
}

std::vector<std::string> JobNotices(const JobConfig& job) {
  std::vector<std::string> notices;
  std::set<std::string> used;
  for (size_t i = 0; i < job.models.size(); ++i) {
    const ModelJob& model = job.models[i];
    used.insert(model.pool);
    if (job.batch_deadline < model.total_timeout) {
      notices.push_back(absl::StrCat(
          "batch.deadline ", headrace::FormatDuration(job.batch_deadline),
          " is shorter than total_timeout ", headrace::FormatDuration(model.total_timeout), " of ",
          Key(model, i), ": calls that may still end well are cut"));
    }
    if (model.first_byte_timeout > model.total_timeout) {
      notices.push_back(absl::StrCat("first_byte_timeout of ", Key(model, i),
                                     " is longer than its total_timeout and never ends a call"));
    }
    const bool has_key = !model.api_key.env.empty() || !model.api_key.file.empty();
    const bool clear = absl::StartsWithIgnoreCase(model.endpoint, "http://");
    if (clear && has_key && !IsLoopbackEndpoint(model.endpoint)) {
      notices.push_back(absl::StrCat(Key(model, i), " sends its key over http:// in clear"));
    }
    if (!clear && !has_key) {
      notices.push_back(absl::StrCat(Key(model, i), " has no api_key: calls go out without one"));
    }
  }
  if (absl::StartsWithIgnoreCase(job.dataset.path, "http://") &&
      job.dataset.api_key != ApiKeySource() && !IsLoopbackEndpoint(job.dataset.path)) {
    notices.push_back("dataset.path sends its key over http:// in clear");
  }
  for (const PoolJob& pool : job.pools) {
    if (used.count(pool.name) == 0) {
      notices.push_back(absl::StrCat("pool ", pool.name, " is used by no model"));
    }
  }
  if (job.on_failure == OnFailure::kMaxFailed && job.max_failed == FailureLimit()) {
    notices.push_back(
        "batch.on_failure is max_failed and max_failed is 0: the first failure ends it");
  }
  return notices;
}

}  // namespace headrace
