#include "cli/run/dataset_copy.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/json_writer.h"
#include "common/base/log.h"
#include "common/base/secret.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "coordinator/dataset/byte_source.h"
#include "coordinator/job/check_job.h"
#include "coordinator/job/validate.h"
#include "coordinator/store/disk.h"
#include "worker/http/fetch.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPartMark = ".of-";  // dataset-HASH.of-PID: a download under way
constexpr size_t kHashDigits = 16;
constexpr size_t kReadBytes = size_t{1} << 20;

std::string Hash(absl::string_view text) {
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Finish();
}

absl::StatusOr<std::string> HashOfFile(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const std::shared_ptr<InputFile> file, InputFile::Open(path));
  Sha256 hash;
  const std::unique_ptr<ByteSource> source = MakeFileSource(file, 0, &hash);
  std::vector<char> buffer(kReadBytes);
  while (true) {
    HR_ASSIGN_OR_RETURN(const size_t size, source->Read(buffer.data(), buffer.size()));
    if (size == 0) return hash.Finish();
  }
}

std::string CopyName(const std::string& url) {
  return absl::StrCat("dataset-", Hash(url).substr(0, kHashDigits));
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Downloads that a killed process left.
void RemoveLeftovers(const std::string& dir, const std::string& name) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string file = entry.path().filename().string();
    absl::string_view pid_text = file;
    if (!absl::ConsumePrefix(&pid_text, absl::StrCat(name, kPartMark))) continue;
    absl::ConsumeSuffix(&pid_text, ".part");
    int pid = 0;
    if (!absl::SimpleAtoi(pid_text, &pid) || pid <= 0) continue;
    if (pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH)) unlink(entry.path().c_str());
  }
}

// Where the copy is from, for people and other programs.
absl::Status WriteOrigin(const std::string& copy, const std::string& url,
                         const http::FetchedFile& fetched) {
  HR_ASSIGN_OR_RETURN(const std::string sha256, HashOfFile(copy));
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Key("url").String(url);
  json.Key("bytes").Int(fetched.bytes);
  json.Key("sha256").String(sha256);
  json.Key("etag").String(fetched.etag);
  json.Key("last_modified").String(fetched.last_modified);
  json.EndObject();
  text.push_back('\n');
  return Disk::Real()->WriteWhole(absl::StrCat(copy, ".json"), text);
}

absl::Status Download(const DatasetJob& dataset, const std::string& dir, const std::string& copy,
                      const std::atomic<bool>* stopped) {
  http::FetchOptions options;
  options.stopped = stopped;
  HR_ASSIGN_OR_RETURN(options.bearer, ReadCheckedKey(dataset.api_key, ValidateOptions()));
  RemoveLeftovers(dir, CopyName(dataset.path));
  const std::string mine = absl::StrCat(copy, kPartMark, getpid());
  HR_LOG(kInfo) << "downloading " << ShownUrl(dataset.path);
  http::FetchedFile fetched;
  absl::Status status = http::FetchToFile(dataset.path, mine, options, &fetched);
  // Unavailable is the word for coordinators and Redis, with an exit code of its own.
  if (absl::IsUnavailable(status)) status = absl::UnknownError(status.message());
  if (!status.ok()) return Annotate(status, "dataset");
  // Whoever is first keeps its bytes, and both go on with them. Where a file has one name only, the
  // last one is kept, and a run that began with another refuses it.
  bool first = link(mine.c_str(), copy.c_str()) == 0;
  int error = errno;
  if (!first && error != EEXIST) {
    first = rename(mine.c_str(), copy.c_str()) == 0;
    error = errno;
  }
  unlink(mine.c_str());
  if (!first && error != EEXIST) return ErrnoStatus(error, absl::StrCat("dataset ", copy));
  if (first) HR_RETURN_IF_ERROR(WriteOrigin(copy, dataset.path, fetched));
  HR_LOG(kInfo) << "downloaded " << FormatBytes(fetched.bytes) << " to " << copy;
  return Disk::Real()->SyncDir(dir);
}

absl::StatusOr<DatasetJob> Copy(const DatasetJob& dataset, const std::string& dir,
                                const std::atomic<bool>* stopped) {
  if (!IsUrl(dataset.path)) return dataset;
  DatasetJob local = dataset;
  local.path = absl::StrCat(dir, "/", CopyName(dataset.path));
  if (!Exists(local.path)) HR_RETURN_IF_ERROR(Download(dataset, dir, local.path, stopped));
  return local;
}

}  // namespace

absl::StatusOr<DatasetJob> CopyDataset(const DatasetJob& dataset, const std::string& dir) {
  return Copy(dataset, dir, nullptr);
}

absl::StatusOr<DatasetJob> CopyDatasetUnless(const std::atomic<bool>& stopped,
                                             const DatasetJob& dataset, const std::string& dir) {
  return Copy(dataset, dir, &stopped);
}

absl::StatusOr<std::unique_ptr<PassingCopy>> PassingCopy::Make(const JobConfig& job) {
  std::unique_ptr<PassingCopy> copy(new PassingCopy());
  copy->job_ = job;
  if (!IsUrl(job.dataset.path)) return copy;
  std::string dir = job.output_dir;
  if (!Exists(absl::StrCat(dir, "/", CopyName(job.dataset.path)))) {
    std::error_code error;
    dir = (fs::temp_directory_path(error) / "headrace-XXXXXX").string();
    if (mkdtemp(dir.data()) == nullptr) return ErrnoStatus(errno, absl::StrCat("making ", dir));
    copy->scratch_ = dir;
  }
  HR_ASSIGN_OR_RETURN(copy->job_.dataset, CopyDataset(job.dataset, dir));
  return copy;
}

PassingCopy::~PassingCopy() {
  std::error_code error;
  if (!scratch_.empty()) fs::remove_all(scratch_, error);
}

}  // namespace headrace
