// Speed (by processor time) and memory of reading a dataset: 10,000 against 1,000,000 rows.
//
//   dataset_bench [DIR]    writes its files to DIR (default: $TMPDIR or /tmp) and removes them
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "coordinator/dataset/dataset.h"

namespace headrace {
namespace {

constexpr int64_t kFewRows = 10'000;
constexpr int64_t kManyRows = 1'000'000;

enum class Shape { kJsonl, kCsv, kBatch };

// Rows of about 570 bytes, the mean of the GSM8K test set.
void WriteFile(const std::string& path, Shape shape, int64_t rows) {
  std::ofstream out(path, std::ios::binary);
  Random random(1);
  std::string filler;
  for (int i = 0; i < 40; ++i) filler += "how many eggs ";
  if (shape == Shape::kCsv) out << "id,question,answer\n";
  for (int64_t i = 0; i < rows; ++i) {
    const std::string question =
        absl::StrCat("Question ", i, ": ", filler.substr(0, 300 + random.Below(200)));
    switch (shape) {
      case Shape::kJsonl:
        out << "{\"id\": \"q-" << i << "\", \"question\": \"" << question
            << "\\u2019s\", \"answer\": \"It takes 2/2=<<2/2=1>>1 bolt.\\n#### " << i << "\"}\n";
        break;
      case Shape::kCsv:
        out << "q-" << i << ",\"" << question << ", \"\"really\"\"\",\"It takes\n1 bolt\"\n";
        break;
      case Shape::kBatch:
        out << "{\"custom_id\":\"q-" << i
            << "\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\""
            << ",\"body\":{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\""
            << question << "\"}],\"max_tokens\":100}}\n";
        break;
    }
  }
}

DatasetJob Job(const std::string& path, Shape shape, bool ids) {
  DatasetJob job;
  job.path = path;
  if (shape != Shape::kBatch) {
    job.prompt = "Answer: {{question}}";
    job.expected = "{{answer}}";
    if (ids) job.id = "id";
  }
  return job;
}

// Processor time, user and system: other load on the machine does not change it.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

int64_t PeakKib() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Figures {
  double scan_seconds = 0;
  double read_seconds = 0;
  double jump_us = 0;
  int64_t peak_kib = 0;
};

Figures Measure(const DatasetJob& job, int64_t rows) {
  Figures figures;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = Dataset::Open(job);
  if (!dataset.ok()) std::fprintf(stderr, "%s\n", dataset.status().ToString().c_str());
  double start = CpuSeconds();
  const absl::StatusOr<DatasetInfo> info = (*dataset)->Scan("");
  if (!info.ok()) std::fprintf(stderr, "%s\n", info.status().ToString().c_str());
  figures.scan_seconds = CpuSeconds() - start;
  start = CpuSeconds();
  const auto cursor = (*dataset)->NewCursor();
  int64_t read = 0;
  while (true) {
    const auto row = (*cursor)->ReadAt(RowIndex(static_cast<uint64_t>(read)));
    if (!row.ok() || !row->has_value()) break;
    ++read;
  }
  figures.read_seconds = CpuSeconds() - start;
  start = CpuSeconds();
  const auto jumping = (*dataset)->NewCursor();
  int64_t jumps = 0;
  for (int64_t row = 0; row < rows; row += rows / 100) {
    (void)(*jumping)->ReadAt(RowIndex(static_cast<uint64_t>(row)));
    ++jumps;
  }
  figures.jump_us = (CpuSeconds() - start) * 1e6 / static_cast<double>(jumps);
  figures.peak_kib = PeakKib();
  if (read != rows) std::fprintf(stderr, "read %ld of %ld rows\n", read, rows);
  return figures;
}

// In a process of its own, so that the peak is of this one measurement.
Figures MeasureInChild(const DatasetJob& job, int64_t rows) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    const Figures figures = Measure(job, rows);
    const bool written = write(ends[1], &figures, sizeof(figures)) == sizeof(figures);
    _exit(written ? 0 : 1);
  }
  Figures figures;
  if (read(ends[0], &figures, sizeof(figures)) != sizeof(figures)) std::abort();
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return figures;
}

void Compare(const std::string& dir, absl::string_view name, Shape shape, bool ids) {
  int64_t few_kib = 0;
  for (int64_t rows : {kFewRows, kManyRows}) {
    const std::string path = absl::StrCat(dir, "/headrace-dataset-bench");
    WriteFile(path, shape, rows);
    const double megabytes = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
    const Figures f = MeasureInChild(Job(path, shape, ids), rows);
    std::filesystem::remove(path);
    if (rows == kFewRows) few_kib = f.peak_kib;
    std::printf(
        "%-18s %8ld rows %6.0f MB  scan %6.0f MB/s  read %6.0f MB/s  jump %7.0f us  peak %6.1f MiB "
        "(+%.1f)\n",
        std::string(name).c_str(), rows, megabytes, megabytes / f.scan_seconds,
        megabytes / f.read_seconds, f.jump_us, static_cast<double>(f.peak_kib) / 1024,
        static_cast<double>(f.peak_kib - few_kib) / 1024);
  }
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  const char* const tmp = std::getenv("TMPDIR");
  const std::string dir = argc > 1 ? argv[1] : tmp != nullptr ? tmp : "/tmp";
  headrace::Compare(dir, "JSONL, no ids", headrace::Shape::kJsonl, false);
  headrace::Compare(dir, "JSONL, ids", headrace::Shape::kJsonl, true);
  headrace::Compare(dir, "CSV, ids", headrace::Shape::kCsv, true);
  headrace::Compare(dir, "OpenAI Batch, ids", headrace::Shape::kBatch, true);
  return 0;
}
