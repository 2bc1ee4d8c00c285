#include "cli/job_flags.h"

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/json_param.h"

namespace headrace {
namespace {

constexpr absl::string_view kDefaultPool = "main";

bool IsJobFile(absl::string_view path) {
  return absl::EndsWithIgnoreCase(path, ".yaml") || absl::EndsWithIgnoreCase(path, ".yml");
}

template <typename T, typename U>
void Override(const std::optional<T>& flag, U* field) {
  if (flag.has_value()) *field = static_cast<U>(*flag);
}

void ChooseModels(const std::vector<std::string>& names, JobConfig* job) {
  if (names.empty()) return;
  std::vector<ModelJob> chosen;
  for (const std::string& name : names) {
    const ModelJob* known = nullptr;
    for (const ModelJob& model : job->models) {
      if (model.label == name) known = &model;
      if (model.name == name && known == nullptr) known = &model;
    }
    chosen.push_back(known != nullptr ? *known : ModelJob());
    if (known == nullptr) chosen.back().name = name;
  }
  job->models = std::move(chosen);
}

absl::Status ApplyToModel(const JobFlags& flags, ModelJob* model) {
  Override(flags.endpoint, &model->endpoint);
  Override(flags.provider, &model->provider);
  Override(flags.ca_file, &model->ca_file);
  Override(flags.stream, &model->stream);
  if (flags.api_key_env.has_value()) model->api_key = {*flags.api_key_env, ""};
  if (flags.api_key_file.has_value()) model->api_key = {"", *flags.api_key_file};
  for (const auto& [key, value] : flags.params) {
    absl::StatusOr<std::string> params = SetJsonMember(model->params_json, key, value);
    if (!params.ok()) return params.status();
    model->params_json = *std::move(params);
  }
  return absl::OkStatus();
}

absl::Status ApplyQuota(const JobFlags& flags, JobConfig* job) {
  if (!flags.tokens_per_minute.has_value() && !flags.requests_per_minute.has_value()) {
    return absl::OkStatus();
  }
  if (job->pools.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--tpm and --rpm: the job has ",
                                                   job->pools.size(),
                                                   " pools; set their limits in the file"));
  }
  if (job->pools.empty()) {
    job->pools.emplace_back();
    job->pools[0].name = std::string(kDefaultPool);
  }
  Override(flags.tokens_per_minute, &job->pools[0].tokens_per_minute);
  Override(flags.requests_per_minute, &job->pools[0].requests_per_minute);
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyJobFlags(const JobFlags& flags, JobConfig* job) {
  ChooseModels(flags.models, job);
  for (ModelJob& model : job->models) {
    if (absl::Status status = ApplyToModel(flags, &model); !status.ok()) return status;
  }
  Override(flags.prompt, &job->dataset.prompt);
  Override(flags.system, &job->dataset.system);
  Override(flags.id, &job->dataset.id);
  Override(flags.expected, &job->dataset.expected);
  Override(flags.limit, &job->dataset.limit);
  Override(flags.order, &job->dataset.order);
  Override(flags.max_in_flight, &job->max_in_flight);
  if (flags.max_in_flight.has_value()) job->auto_in_flight = *flags.max_in_flight == 0;
  Override(flags.batch_size, &job->batch_size);
  Override(flags.deadline, &job->batch_deadline);
  Override(flags.attempts, &job->attempts);
  Override(flags.passes, &job->passes);
  Override(flags.output_dir, &job->output_dir);
  Override(flags.max_failed, &job->max_failed);
  Override(flags.max_cost_usd, &job->max_cost_usd);
  return ApplyQuota(flags, job);
}

std::string JobFileName(const JobFlags& flags) {
  return IsJobFile(flags.input) ? flags.input : std::string();
}

absl::StatusOr<JobConfig> MakeJob(const JobFlags& flags) {
  JobConfig job;
  if (IsJobFile(flags.input)) {
    absl::StatusOr<JobConfig> read = ReadJobFile(flags.input);
    if (!read.ok()) return read.status();
    job = *std::move(read);
  } else {
    job.dataset.path = flags.input;
  }
  if (absl::Status status = ApplyJobFlags(flags, &job); !status.ok()) return status;
  if (job.models.empty()) {
    return absl::InvalidArgumentError("no model: give --model NAME, or models in a job file");
  }
  if (absl::Status status = FinishJob(&job); !status.ok()) return status;
  return job;
}

}  // namespace headrace
