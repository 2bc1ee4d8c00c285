#include "coordinator/store/identity.h"

#include <yaml-cpp/yaml.h>

#include <exception>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/utf8.h"

namespace headrace {
namespace {

// Longer values (prompts) are cut in a message.
constexpr size_t kMaxValueBytes = 60;
constexpr absl::string_view kNone = "(none)";

// Keys that say nothing about outcomes, so that a run may go on with others: a budget that is used
// up is raised, a directory is moved, answers are looked at for JSON after all, another job shall
// go first.
constexpr absl::string_view kFreeKeys[] = {"dataset.order", "job_weight", "max_cost", "output.dir",
                                           "output.json"};

using FlatYaml = std::map<std::string, std::string>;

void Flatten(const YAML::Node& node, const std::string& path, FlatYaml* out) {
  if (node.IsMap() && node.size() > 0) {
    for (const auto& entry : node) {
      const std::string key = entry.first.as<std::string>();
      Flatten(entry.second, path.empty() ? key : absl::StrCat(path, ".", key), out);
    }
  } else if (node.IsSequence() && node.size() > 0) {
    for (size_t i = 0; i < node.size(); ++i) Flatten(node[i], absl::StrCat(path, "[", i, "]"), out);
  } else if (node.IsScalar()) {
    (*out)[path] = node.Scalar();
  } else {
    (*out)[path] = node.IsMap() ? "{}" : node.IsSequence() ? "[]" : "null";
  }
}

// False when it is not YAML.
bool ParseFlat(const std::string& yaml, FlatYaml* out) {
  try {
    Flatten(YAML::Load(yaml), "", out);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::string Change(absl::string_view what, absl::string_view before, absl::string_view now) {
  return absl::StrCat(what, ": ", ExcerptUtf8(before, kMaxValueBytes), " -> ",
                      ExcerptUtf8(now, kMaxValueBytes));
}

void CompareJobs(const std::string& before, const std::string& now,
                 std::vector<std::string>* differences) {
  if (before == now) return;
  FlatYaml old_keys;
  FlatYaml new_keys;
  if (!ParseFlat(before, &old_keys) || !ParseFlat(now, &new_keys)) {
    differences->push_back("the job file");
    return;
  }
  for (absl::string_view key : kFreeKeys) {
    old_keys.erase(std::string(key));
    new_keys.erase(std::string(key));
  }
  for (const auto& [key, value] : old_keys) {
    const auto it = new_keys.find(key);
    if (it == new_keys.end()) {
      differences->push_back(Change(key, value, kNone));
    } else if (it->second != value) {
      differences->push_back(Change(key, value, it->second));
    }
  }
  for (const auto& [key, value] : new_keys) {
    if (!old_keys.contains(key)) differences->push_back(Change(key, kNone, value));
  }
}

}  // namespace

std::vector<std::string> DescribeDifferences(const RunIdentity& before, const RunIdentity& now) {
  std::vector<std::string> differences;
  if (before.rows != now.rows) {
    differences.push_back(
        Change("dataset rows", absl::StrCat(before.rows), absl::StrCat(now.rows)));
  }
  if (before.dataset_sha256 != now.dataset_sha256) {
    differences.push_back(
        Change("dataset content (SHA-256)", before.dataset_sha256, now.dataset_sha256));
  }
  if (before.models != now.models) {
    differences.push_back(
        Change("number of models", absl::StrCat(before.models), absl::StrCat(now.models)));
  }
  CompareJobs(before.job_yaml, now.job_yaml, &differences);
  if (differences.size() > kMaxDifferences) {
    const size_t more = differences.size() - kMaxDifferences;
    differences.resize(kMaxDifferences);
    differences.push_back(absl::StrCat("and ", more, " more"));
  }
  return differences;
}

}  // namespace headrace
