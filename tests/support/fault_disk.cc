#include "tests/support/fault_disk.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status.h"

namespace headrace {

// A file: what is durable, and what has happened to it since.
struct FaultDisk::Node {
  struct Change {
    std::optional<int64_t> truncate_to = std::nullopt;
    std::optional<int64_t> overwrite_at = std::nullopt;  // without both, an append
    std::string data = "";
    bool lost = false;  // a sync failed over it
  };

  void Apply(const Change& change, std::string* bytes) const {
    if (change.truncate_to.has_value()) {
      bytes->resize(static_cast<size_t>(*change.truncate_to));
    } else if (change.overwrite_at.has_value()) {
      bytes->replace(static_cast<size_t>(*change.overwrite_at), change.data.size(), change.data);
    } else {
      *bytes += change.data;
    }
  }
  void Do(Change change) {
    Apply(change, &content);
    changes.push_back(std::move(change));
  }
  void Sync() {
    for (const Change& change : changes) {
      const size_t before = durable.size();
      if (change.lost && change.overwrite_at.has_value()) continue;
      Apply(change, &durable);
      if (change.lost && durable.size() > before) {
        std::fill(durable.begin() + static_cast<ptrdiff_t>(before), durable.end(), '\0');
      }
    }
    changes.clear();
  }
  void FailSync() {
    for (Change& change : changes) change.lost = true;
  }

  std::string AfterCrash(Survivors survivors, Random* random) const {
    if (survivors == Survivors::kAll) return content;
    std::string result = durable;
    if (survivors == Survivors::kNone) return result;
    size_t safe = result.size();
    for (const Change& change : changes) {
      // Cuts reach the disk in order, and nothing that follows one comes before it.
      if (change.truncate_to.has_value() && random->Chance(0.5)) break;
      if (change.lost && change.overwrite_at.has_value()) continue;
      Apply(change, &result);
      safe = std::min(safe, result.size());
      if (change.lost) std::fill(result.begin() + static_cast<ptrdiff_t>(safe), result.end(), '\0');
    }
    if (random->Chance(0.7)) result.resize(safe + random->Below(result.size() - safe + 1));
    const double keep = random->Unit();
    for (size_t start = safe; start < result.size();) {
      const size_t end = std::min(result.size(), (start / kSectorBytes + 1) * kSectorBytes);
      if (!random->Chance(keep)) {
        std::fill(result.begin() + static_cast<ptrdiff_t>(start),
                  result.begin() + static_cast<ptrdiff_t>(end), '\0');
      }
      start = end;
    }
    return result;
  }

  std::string content;
  std::string durable;
  std::vector<Change> changes;
  int64_t reserved = 0;  // beyond the end
  bool locked = false;
};

class FaultDisk::OpenFile final : public File {
 public:
  OpenFile(FaultDisk* disk, std::shared_ptr<Node> node, bool holds_lock)
      : disk_(disk), node_(std::move(node)), holds_lock_(holds_lock) {}
  ~OpenFile() override {
    const absl::MutexLock lock(&disk_->mutex_);
    if (holds_lock_) node_->locked = false;
  }

  absl::Status Append(absl::string_view data) override {
    const absl::MutexLock lock(&disk_->mutex_);
    const bool was_crashed = disk_->crashed_;
    const auto fault = disk_->faults_.find(Call::kAppend);
    int64_t part = fault != disk_->faults_.end() ? fault->second.written : 0;
    const absl::Status status = disk_->Enter(Call::kAppend, true);
    if (!status.ok()) {
      if (disk_->crashed_) part = was_crashed ? 0 : static_cast<int64_t>(data.size()) / 2;
      node_->Do({.data = std::string(data.substr(0, part))});
      return status;
    }
    const auto size = static_cast<int64_t>(data.size());
    const int64_t from_reserve = std::min(node_->reserved, size);
    const absl::Status space = disk_->TakeSpace(size - from_reserve);
    if (!space.ok()) {
      const int64_t fits = from_reserve + *disk_->free_bytes_;
      node_->reserved = 0;
      disk_->free_bytes_ = 0;
      node_->Do({.data = std::string(data.substr(0, fits))});
      return space;
    }
    node_->reserved -= from_reserve;
    node_->Do({.data = std::string(data)});
    return absl::OkStatus();
  }

  absl::Status DataSync() override {
    const absl::MutexLock lock(&disk_->mutex_);
    const absl::Status status = disk_->Enter(Call::kDataSync, true);
    if (status.ok()) {
      node_->Sync();
    } else if (!disk_->crashed_) {
      node_->FailSync();
    }
    return status;
  }

  absl::Status Overwrite(int64_t offset, absl::string_view data) override {
    const absl::MutexLock lock(&disk_->mutex_);
    HR_RETURN_IF_ERROR(disk_->Enter(Call::kOverwrite, true));
    HR_CHECK(offset + static_cast<int64_t>(data.size()) <=
             static_cast<int64_t>(node_->content.size()));
    node_->Do({.overwrite_at = offset, .data = std::string(data)});
    return absl::OkStatus();
  }

  absl::Status Truncate(int64_t size) override {
    const absl::MutexLock lock(&disk_->mutex_);
    HR_RETURN_IF_ERROR(disk_->Enter(Call::kTruncate, true));
    const int64_t cut = static_cast<int64_t>(node_->content.size()) - size;
    if (disk_->free_bytes_.has_value()) *disk_->free_bytes_ += node_->reserved + cut;
    node_->reserved = 0;
    node_->Do({.truncate_to = size});
    return absl::OkStatus();
  }

  absl::Status Reserve(int64_t bytes) override {
    const absl::MutexLock lock(&disk_->mutex_);
    HR_RETURN_IF_ERROR(disk_->Enter(Call::kReserve, false));
    if (!disk_->can_reserve_) return absl::OkStatus();
    const int64_t more = std::max<int64_t>(0, bytes - node_->reserved);
    HR_RETURN_IF_ERROR(disk_->TakeSpace(more));
    node_->reserved += more;
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> ReadAt(int64_t offset, int64_t size, char* buffer) override {
    const absl::MutexLock lock(&disk_->mutex_);
    HR_RETURN_IF_ERROR(disk_->Enter(Call::kRead, false));
    const auto end = static_cast<int64_t>(node_->content.size());
    const int64_t got = std::clamp<int64_t>(end - offset, 0, size);
    std::copy_n(node_->content.begin() + (got > 0 ? offset : 0), got, buffer);
    return got;
  }

  absl::StatusOr<int64_t> Size() override {
    const absl::MutexLock lock(&disk_->mutex_);
    return static_cast<int64_t>(node_->content.size());
  }

 private:
  FaultDisk* const disk_;
  const std::shared_ptr<Node> node_;
  const bool holds_lock_;
};

FaultDisk::FaultDisk() = default;

FaultDisk::~FaultDisk() = default;

absl::Status FaultDisk::Enter(Call call, bool changes) {
  if (crashed_) return absl::AbortedError("crashed");
  ++calls_[call];
  if (changes && ++steps_ == crash_at_) {
    crashed_ = true;
    return absl::AbortedError("crashed");
  }
  const auto it = faults_.find(call);
  if (it == faults_.end() || --it->second.remaining > 0) return absl::OkStatus();
  const absl::Status status = it->second.status;
  if (--it->second.times == 0) faults_.erase(it);
  return status;
}

absl::Status FaultDisk::TakeSpace(int64_t bytes) {
  if (!free_bytes_.has_value()) return absl::OkStatus();
  if (bytes > *free_bytes_) return ErrnoStatus(ENOSPC, "fault disk");
  *free_bytes_ -= bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<File>> FaultDisk::OpenAppend(const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  if (crashed_) return absl::AbortedError("crashed");
  std::shared_ptr<Node>& node = live_[path];
  if (node == nullptr) node = std::make_shared<Node>();
  return std::make_unique<OpenFile>(this, node, false);
}

absl::StatusOr<std::unique_ptr<File>> FaultDisk::OpenRead(const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  const auto it = live_.find(path);
  if (it == live_.end()) return ErrnoStatus(ENOENT, path);
  return std::make_unique<OpenFile>(this, it->second, false);
}

// Directories exist as soon as they have a file.
absl::Status FaultDisk::MakeDirs(const std::string& path) { return absl::OkStatus(); }

absl::Status FaultDisk::SyncDir(const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  HR_RETURN_IF_ERROR(Enter(Call::kSyncDir, true));
  std::erase_if(durable_, [&](const auto& entry) {
    return DirName(entry.first) == path && !live_.contains(entry.first);
  });
  for (const auto& [name, node] : live_) {
    if (DirName(name) == path) durable_[name] = node;
  }
  return absl::OkStatus();
}

absl::Status FaultDisk::Rename(const std::string& from, const std::string& to) {
  const absl::MutexLock lock(&mutex_);
  HR_RETURN_IF_ERROR(Enter(Call::kRename, true));
  const auto it = live_.find(from);
  if (it == live_.end()) return ErrnoStatus(ENOENT, from);
  live_[to] = it->second;
  live_.erase(from);
  return absl::OkStatus();
}

absl::Status FaultDisk::Remove(const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  if (!live_.contains(path)) return absl::OkStatus();
  HR_RETURN_IF_ERROR(Enter(Call::kRemove, true));
  if (free_bytes_.has_value()) *free_bytes_ += static_cast<int64_t>(live_[path]->content.size());
  live_.erase(path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultDisk::List(const std::string& dir) {
  const absl::MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, node] : live_) {
    if (DirName(name) == dir) names.push_back(name.substr(dir.size() + 1));
  }
  return names;
}

absl::StatusOr<std::unique_ptr<File>> FaultDisk::Lock(const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  std::shared_ptr<Node>& node = live_[path];
  if (node == nullptr) node = std::make_shared<Node>();
  if (node->locked) return absl::FailedPreconditionError(absl::StrCat(path, " is locked"));
  node->locked = true;
  return std::make_unique<OpenFile>(this, node, true);
}

void FaultDisk::FailNth(Call call, int64_t k, absl::Status status, int64_t written, int64_t times) {
  const absl::MutexLock lock(&mutex_);
  faults_[call] = {k, std::move(status), written, times};
}

int64_t FaultDisk::calls(Call call) const {
  const absl::MutexLock lock(&mutex_);
  const auto it = calls_.find(call);
  return it == calls_.end() ? 0 : it->second;
}

void FaultDisk::SetFreeBytes(int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  free_bytes_ = bytes;
}

void FaultDisk::SetCanReserve(bool can_reserve) {
  const absl::MutexLock lock(&mutex_);
  can_reserve_ = can_reserve;
}

void FaultDisk::CrashAtStep(int64_t k) {
  const absl::MutexLock lock(&mutex_);
  crash_at_ = k;
}

int64_t FaultDisk::steps() const {
  const absl::MutexLock lock(&mutex_);
  return steps_;
}

bool FaultDisk::crashed() const {
  const absl::MutexLock lock(&mutex_);
  return crashed_;
}

std::unique_ptr<FaultDisk> FaultDisk::AfterCrash(Survivors survivors, uint64_t seed) const {
  const absl::MutexLock lock(&mutex_);
  Random random(seed);
  auto disk = std::make_unique<FaultDisk>();
  // Each change of a directory that was not synced may have reached the disk or not.
  Names names = survivors == Survivors::kAll ? live_ : durable_;
  if (survivors == Survivors::kRandom) {
    for (const auto& [name, node] : live_) {
      const auto it = durable_.find(name);
      if ((it == durable_.end() || it->second != node) && random.Chance(0.5)) names[name] = node;
    }
    for (const auto& [name, node] : durable_) {
      if (!live_.contains(name) && random.Chance(0.5)) names.erase(name);
    }
  }
  for (const auto& [name, node] : names) {
    disk->SetContent(name, node->AfterCrash(survivors, &random));
  }
  return disk;
}

void FaultDisk::RestartProcess() {
  const absl::MutexLock lock(&mutex_);
  crashed_ = false;
  crash_at_ = 0;
  faults_.clear();
}

std::string FaultDisk::Content(const std::string& path) const {
  const absl::MutexLock lock(&mutex_);
  const auto it = live_.find(path);
  return it == live_.end() ? "" : it->second->content;
}

void FaultDisk::SetContent(const std::string& path, std::string content) {
  const absl::MutexLock lock(&mutex_);
  auto node = std::make_shared<Node>();
  node->content = node->durable = std::move(content);
  live_[path] = durable_[path] = std::move(node);
}

bool FaultDisk::Exists(const std::string& path) const {
  const absl::MutexLock lock(&mutex_);
  return live_.contains(path);
}

std::vector<std::string> FaultDisk::Paths() const {
  const absl::MutexLock lock(&mutex_);
  std::vector<std::string> paths;
  for (const auto& [name, node] : live_) paths.push_back(name);
  return paths;
}

}  // namespace headrace
