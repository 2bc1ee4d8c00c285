#include <cmath>
#include <limits>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/flag_types.h"
#include "cli/job_flags.h"
#include "cli/json_param.h"
#include "common/base/units.h"

namespace headrace {
namespace {

void AddText(CLI::App* command, const std::string& name, std::optional<std::string>* out,
             const std::string& type, const std::string& help) {
  command
      ->add_option_function<std::string>(
          name, [out](const std::string& text) { *out = text; }, help)
      ->type_name(type);
}

void AddOptionalCount(CLI::App* command, const std::string& name, std::optional<int64_t>* out,
                      int64_t minimum, const std::string& help) {
  const auto parse = [out, minimum](const std::string& text) {
    const absl::StatusOr<int64_t> value = ParseCount(text);
    if (!value.ok()) return value.status();
    // Some counts are ints in the job.
    if (*value < minimum || (minimum == 1 && *value > std::numeric_limits<int32_t>::max())) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is out of range"));
    }
    *out = *value;
    return absl::OkStatus();
  };
  AddParsed(command, name, parse, help)->type_name("N");
}

absl::Status ParseMoney(const std::string& text, std::optional<double>* out) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no amount above 0"));
  }
  *out = value;
  return absl::OkStatus();
}

absl::Status ParseMaxInFlight(const std::string& text, std::optional<int64_t>* out) {
  if (text == "auto") {
    *out = 0;
    return absl::OkStatus();
  }
  const absl::StatusOr<int64_t> value = ParseCount(text);
  if (!value.ok() || *value < 1) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is neither auto nor a count"));
  }
  *out = *value;
  return absl::OkStatus();
}

void AddModelFlags(CLI::App* command, JobFlags* flags) {
  command->add_option("--model", flags->models, "Model, as the provider calls it (repeat)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  AddText(command, "--endpoint", &flags->endpoint, "URL", "Base URL of the provider's API");
  AddText(command, "--provider", &flags->provider, "NAME",
          "API dialect: openai or anthropic (default: openai)");
  AddText(command, "--api-key-env", &flags->api_key_env, "NAME",
          "Environment variable that holds the key");
  AddText(command, "--api-key-file", &flags->api_key_file, "PATH", "File that holds the key");
  AddText(command, "--ca-file", &flags->ca_file, "PATH", "CA certificates to trust, as PEM");
  AddParsed(
      command, "--param",
      [flags](const std::string& text) { return ParseParam(text, &flags->params); },
      "Parameter of every request, e.g. temperature=0 (repeat)")
      ->type_name("KEY=JSON")
      ->allow_extra_args(false)
      ->expected(1, std::numeric_limits<int>::max());
  command->add_flag_callback(
      "--stream", [flags] { flags->stream = true; }, "Ask for a stream (default)");
  command->add_flag_callback(
      "--no-stream", [flags] { flags->stream = false; }, "Ask for whole answers");
}

void AddDatasetFlags(CLI::App* command, JobFlags* flags) {
  AddText(command, "--prompt", &flags->prompt, "TEMPLATE", "User message, e.g. \"{{question}}\"");
  AddText(command, "--system", &flags->system, "TEMPLATE", "System message");
  AddText(command, "--id", &flags->id, "FIELD", "Field that holds the row's id");
  AddText(command, "--expected", &flags->expected, "TEMPLATE", "Expected answer, for scoring");
  AddOptionalCount(command, "--limit", &flags->limit, 0, "Take only the first N rows");
  AddValue(
      command, "--order", &flags->order, ParseRowOrdering,
      "Order of rows: file, or prompt_cache for rows that begin alike together (default: file)")
      ->type_name("ORDER");
}

void AddRunFlags(CLI::App* command, JobFlags* flags) {
  AddOptionalCount(command, "--tpm", &flags->tokens_per_minute, 0, "Quota: tokens per minute");
  AddOptionalCount(command, "--rpm", &flags->requests_per_minute, 0, "Quota: requests per minute");
  AddParsed(
      command, "--max-in-flight",
      [flags](const std::string& text) { return ParseMaxInFlight(text, &flags->max_in_flight); },
      "Calls in flight at most; auto finds how many pay")
      ->type_name("N|auto");
  AddOptionalCount(command, "--batch-size", &flags->batch_size, 1,
                   "Items in a batch (default: 500)");
  AddValue(command, "--deadline", &flags->deadline, ParseDuration,
           "Time limit of a batch (default: 120s)")
      ->type_name("DUR");
  AddOptionalCount(command, "--attempts", &flags->attempts, 1,
                   "Calls for one item in a pass (default: 3)");
  AddOptionalCount(command, "--passes", &flags->passes, 1,
                   "Passes: 2 runs what failed once more (default: 2)");
  AddText(command, "--out", &flags->output_dir, "DIR", "Run directory (default: runs/JOB)");
  AddValue(command, "--max-failed", &flags->max_failed, ParseFailureLimit,
           "Failures that still count as success (default: 0)")
      ->type_name("N|P%");
  AddParsed(
      command, "--max-cost",
      [flags](const std::string& text) { return ParseMoney(text, &flags->max_cost_usd); },
      "Stop when this much is spent (needs prices)")
      ->type_name("USD");
}

}  // namespace

void AddJobFlags(CLI::App* command, JobFlags* flags) {
  command->add_option("input", flags->input, "A job file (.yaml) or a dataset")
      ->required()
      ->type_name("JOB.yaml|DATA");
  AddDatasetFlags(command, flags);
  AddModelFlags(command, flags);
  AddRunFlags(command, flags);
}

}  // namespace headrace
