// A disk in memory that fails as real ones do: errors on a chosen call, short writes, a full disk,
// and crashes that keep what was synced and any part of what was not.
#ifndef HEADRACE_TESTS_SUPPORT_FAULT_DISK_H_
#define HEADRACE_TESTS_SUPPORT_FAULT_DISK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/store/disk.h"

namespace headrace {

class FaultDisk final : public Disk {
 public:
  enum class Call {
    kAppend,
    kDataSync,
    kOverwrite,
    kTruncate,
    kReserve,
    kRead,
    kRename,
    kRemove,
    kSyncDir
  };

  // What a crash leaves of what was not synced.
  enum class Survivors {
    kAll,     // the process was killed: everything written is there
    kNone,    // the power failed before anything more reached the disk
    kRandom,  // the power failed: any sectors, NUL in place of the others, any size up to the end
  };

  FaultDisk();
  ~FaultDisk() override;

  // Disk. Thread-safe.
  absl::StatusOr<std::unique_ptr<File>> OpenAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> OpenRead(const std::string& path) override;
  absl::Status MakeDirs(const std::string& path) override;
  absl::Status SyncDir(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& dir) override;
  absl::StatusOr<std::unique_ptr<File>> Lock(const std::string& path) override;

  // The k-th (from 1, counted from now) such call and the `times - 1` after it fail with `status`;
  // later ones succeed again. A failed append has written its first `written` bytes. A failed sync
  // drops what it should have made durable: a later sync that succeeds does not bring it back (as
  // on Linux).
  void FailNth(Call call, int64_t k, absl::Status status, int64_t written = 0, int64_t times = 1);
  int64_t calls(Call call) const;

  // Bytes that may still be appended or reserved over all files. An append that finds fewer writes
  // as many as there are. A cut gives back what it cuts, a removal all.
  void SetFreeBytes(int64_t bytes);
  // Without it Reserve() is OK and does nothing, as where the file system cannot. On by default.
  void SetCanReserve(bool can_reserve);

  // The k-th changing call (from 1, counted from the start) crashes: an append writes a part,
  // anything else does nothing, and all later calls fail with Aborted "crashed".
  void CrashAtStep(int64_t k);
  int64_t steps() const;
  bool crashed() const;

  // What a machine that starts after a crash now would find. Equal seeds give equal disks.
  std::unique_ptr<FaultDisk> AfterCrash(Survivors survivors, uint64_t seed) const;

  // The process died and a new one starts, on a machine that went on: what was written but not
  // synced is still to be lost. Call it when all files are closed.
  void RestartProcess();

  // Direct access for tests: no faults, durable at once.
  std::string Content(const std::string& path) const;  // empty when there is no such file
  void SetContent(const std::string& path, std::string content);
  bool Exists(const std::string& path) const;
  std::vector<std::string> Paths() const;

  // A sector is lost or kept as a whole. Smaller than real ones, so that small tests meet holes.
  static constexpr size_t kSectorBytes = 64;

 private:
  struct Node;
  class OpenFile;
  struct Fault {
    int64_t remaining = 0;
    absl::Status status;
    int64_t written = 0;
    int64_t times = 1;
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  // Counts the call; the status that it shall fail with, if any. `changes` makes it a step.
  absl::Status Enter(Call call, bool changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeSpace(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  // Nodes are shared by the names of both maps and by open files.
  Names live_ ABSL_GUARDED_BY(mutex_);
  Names durable_ ABSL_GUARDED_BY(mutex_);
  std::map<Call, int64_t> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<Call, Fault> faults_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> free_bytes_ ABSL_GUARDED_BY(mutex_);
  bool can_reserve_ ABSL_GUARDED_BY(mutex_) = true;
  int64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t crash_at_ ABSL_GUARDED_BY(mutex_) = 0;
  bool crashed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_FAULT_DISK_H_
