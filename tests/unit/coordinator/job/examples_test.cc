// What users copy must work: every example file, and every example in docs/job_file.md.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/job/estimate.h"
#include "coordinator/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

const std::filesystem::path kRoot = HEADRACE_SOURCE_DIR;

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

JobConfig Finished(const std::string& yaml, const std::string& name) {
  absl::StatusOr<JobConfig> job = ParseJob(yaml, name);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return JobConfig();
  const absl::Status finished = FinishJob(&*job);
  EXPECT_TRUE(finished.ok()) << name << ": " << finished << "\n" << yaml;
  return *job;
}

TEST(Examples, EveryExampleJobIsValidAndItsBundledDatasetIsRead) {
  int jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "examples")) {
    if (entry.path().extension() != ".yaml") continue;
    ++jobs;
    const std::string name = entry.path().filename().string();
    JobConfig job = Finished(ReadText(entry.path()), name);
    EXPECT_THAT(JobNotices(job), testing::IsEmpty()) << name;
    if (!absl::StartsWith(job.dataset.path, "examples/")) continue;
    job.dataset.path = (kRoot / job.dataset.path).string();
    const absl::StatusOr<std::unique_ptr<Dataset>> dataset = Dataset::Open(job.dataset);
    ASSERT_TRUE(dataset.ok()) << name << ": " << dataset.status();
    const absl::StatusOr<DatasetInfo> info = (*dataset)->Scan("");
    ASSERT_TRUE(info.ok()) << name << ": " << info.status();
    EXPECT_EQ(info->bad_rows, 0) << name;
    EXPECT_THAT(info->problems, testing::IsEmpty()) << name;
    EXPECT_GT(info->rows, 0) << name;
  }
  EXPECT_GE(jobs, 5);
}

TEST(Examples, TheSampleHas200Rows) {
  DatasetJob job;
  job.path = (kRoot / "examples/sample.jsonl").string();
  job.prompt = "{{question}}";
  job.expected = "{{answer}}";
  job.id = "id";
  const absl::StatusOr<std::unique_ptr<Dataset>> dataset = Dataset::Open(job);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->Scan("")->rows, 200);
}

// The blocks between ```yaml and ``` of a page.
std::vector<std::string> YamlBlocks(const std::string& page) {
  std::vector<std::string> blocks;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (line == "```yaml") {
      inside = true;
      blocks.emplace_back();
    } else if (absl::StartsWith(line, "```")) {
      inside = false;
    } else if (inside) {
      absl::StrAppend(&blocks.back(), line, "\n");
    }
  }
  return blocks;
}

TEST(Examples, EveryJobInTheJobFilePageIsValid) {
  const std::vector<std::string> blocks = YamlBlocks(ReadText(kRoot / "docs/job_file.md"));
  ASSERT_GE(blocks.size(), 6u);
  for (const std::string& yaml : blocks) Finished(yaml, "docs/job_file.md");
}

// A key that the program knows and the page does not is a key that nobody finds.
TEST(Examples, TheJobFilePageNamesEveryKeyOfAResolvedJob) {
  const std::string page = ReadText(kRoot / "docs/job_file.md");
  JobConfig job = Finished(ReadText(kRoot / "examples/gsm8k.yaml"), "gsm8k.yaml");
  job.models[0].ca_file = "x";
  job.models[0].headers["X-A"] = "b";
  job.dataset.system = "x";
  job.dataset.id = "x";
  int keys = 0;
  for (absl::string_view line : absl::StrSplit(ToYaml(job), '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    absl::string_view key = line.substr(0, colon);
    key.remove_prefix(std::min(key.find_first_not_of(" -"), key.size()));
    if (key == "main" || key == "X-A") continue;  // names of the user's own
    ++keys;
    const std::string name(key);
    EXPECT_TRUE(absl::StrContains(page, absl::StrCat("`", name, "`")) ||
                absl::StrContains(page, absl::StrCat(".", name, "`")) ||
                absl::StrContains(page, absl::StrCat("{", name, ":")) ||
                absl::StrContains(page, absl::StrCat(", ", name, ":")) ||
                absl::StrContains(page, absl::StrCat(", ", name, "}")) ||
                absl::StrContains(page, absl::StrCat(", ", name, ", ")) ||
                absl::StrContains(page, absl::StrCat("{", name, ", ")))
        << name << " is not in docs/job_file.md";
  }
  EXPECT_GE(keys, 40);
}

}  // namespace
}  // namespace headrace
