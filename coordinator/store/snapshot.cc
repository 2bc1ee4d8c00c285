#include "coordinator/store/snapshot.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "coordinator/store/binary.h"

namespace headrace {
namespace {

constexpr absl::string_view kMagic = "hrsnap01";
constexpr absl::string_view kNamePrefix = "snapshot-";
constexpr absl::string_view kNameSuffix = ".bin";
constexpr size_t kNameDigits = 20;  // of the largest uint64
constexpr size_t kCrcBytes = 4;

}  // namespace

std::string EncodeSnapshot(const Snapshot& snapshot) {
  std::string out(kMagic);
  out.reserve(snapshot.content.size() + 128);
  AppendText(snapshot.run_id, &out);
  AppendU64(static_cast<uint64_t>(snapshot.position.results_bytes), &out);
  AppendU64(static_cast<uint64_t>(snapshot.position.results_lines), &out);
  AppendU64(static_cast<uint64_t>(snapshot.position.errors_bytes), &out);
  AppendU64(static_cast<uint64_t>(snapshot.position.errors_lines), &out);
  AppendU64(snapshot.position.lsn.value(), &out);
  AppendU64(snapshot.content.size(), &out);
  out.append(snapshot.content);
  AppendU32(Crc32c(out), &out);
  return out;
}

absl::StatusOr<Snapshot> DecodeSnapshot(absl::string_view bytes) {
  if (bytes.size() < kMagic.size() + kCrcBytes || !absl::StartsWith(bytes, kMagic)) {
    return absl::DataLossError("not a snapshot of this version");
  }
  const absl::string_view checked = bytes.substr(0, bytes.size() - kCrcBytes);
  if (BinaryReader(bytes.substr(checked.size())).ReadU32() != Crc32c(checked)) {
    return absl::DataLossError("the snapshot's checksum is wrong");
  }
  BinaryReader reader(checked.substr(kMagic.size()));
  Snapshot snapshot;
  snapshot.run_id = std::string(reader.ReadText());
  snapshot.position.results_bytes = static_cast<int64_t>(reader.ReadU64());
  snapshot.position.results_lines = static_cast<int64_t>(reader.ReadU64());
  snapshot.position.errors_bytes = static_cast<int64_t>(reader.ReadU64());
  snapshot.position.errors_lines = static_cast<int64_t>(reader.ReadU64());
  snapshot.position.lsn = Lsn(reader.ReadU64());
  snapshot.content = std::string(reader.ReadBytes(reader.ReadU64()));
  if (!reader.ok() || reader.left() != 0) return absl::DataLossError("the snapshot is cut");
  return snapshot;
}

std::string SnapshotFileName(uint64_t number) {
  return absl::StrCat(kNamePrefix, absl::Dec(number, absl::kZeroPad20), kNameSuffix);
}

std::optional<uint64_t> SnapshotNumber(absl::string_view name) {
  if (name.size() != kNamePrefix.size() + kNameDigits + kNameSuffix.size() ||
      !absl::StartsWith(name, kNamePrefix) || !absl::EndsWith(name, kNameSuffix)) {
    return std::nullopt;
  }
  const absl::string_view digits = name.substr(kNamePrefix.size(), kNameDigits);
  uint64_t number = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &number)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace headrace
