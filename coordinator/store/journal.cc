#include "coordinator/store/journal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "coordinator/store/binary.h"

namespace headrace {
namespace {

// On disk: never renumber.
enum class RecordType : uint8_t {
  kRun = 1,
  kDeferred = 2,
  kBatchIds = 3,
  kStart = 4,
  kWorker = 5,
  kDurable = 6,
  kState = 7,
  kLast = kState,
};

constexpr size_t kFrameHeaderBytes = 8;
// type, lsn, length of the payload.
constexpr size_t kRecordHeaderBytes = 1 + 8 + 4;
// item, class, passes, attempts.
constexpr size_t kDeferredBytes = 8 + 1 + 4 + 4;

void AppendRecord(RecordType type, Lsn lsn, absl::string_view payload, std::string* records) {
  AppendU8(static_cast<uint8_t>(type), records);
  AppendU64(lsn.value(), records);
  AppendText(payload, records);
}

// The records of the frame at the start of `bytes`, nothing when it is cut or damaged.
std::optional<absl::string_view> ReadFrame(absl::string_view bytes) {
  BinaryReader reader(bytes);
  const uint32_t length = reader.ReadU32();
  const uint32_t crc = reader.ReadU32();
  const absl::string_view records = reader.ReadBytes(length);
  if (!reader.ok() || length < kRecordHeaderBytes || Crc32c(records) != crc) return std::nullopt;
  return records;
}

// Whether a good frame starts anywhere after the first byte. The record header is looked at before
// the checksum, so that a long rest does not cost a checksum per byte.
bool HasGoodFrameAfter(absl::string_view bytes, Lsn last_lsn) {
  for (size_t start = 1; start + kFrameHeaderBytes + kRecordHeaderBytes <= bytes.size(); ++start) {
    BinaryReader header(bytes.substr(start));
    const uint32_t length = header.ReadU32();
    if (length > bytes.size() - start - kFrameHeaderBytes) continue;
    header.ReadU32();
    const uint8_t type = header.ReadU8();
    const uint64_t lsn = header.ReadU64();
    if (type < static_cast<uint8_t>(RecordType::kRun) ||
        type > static_cast<uint8_t>(RecordType::kLast) || lsn <= last_lsn.value()) {
      continue;
    }
    if (ReadFrame(bytes.substr(start)).has_value()) return true;
  }
  return false;
}

void AppendPosition(const LogPosition& position, std::string* payload) {
  AppendU64(static_cast<uint64_t>(position.results_bytes), payload);
  AppendU64(static_cast<uint64_t>(position.results_lines), payload);
  AppendU64(static_cast<uint64_t>(position.errors_bytes), payload);
  AppendU64(static_cast<uint64_t>(position.errors_lines), payload);
}

LogPosition ReadPosition(BinaryReader* reader) {
  LogPosition position;
  position.results_bytes = static_cast<int64_t>(reader->ReadU64());
  position.results_lines = static_cast<int64_t>(reader->ReadU64());
  position.errors_bytes = static_cast<int64_t>(reader->ReadU64());
  position.errors_lines = static_cast<int64_t>(reader->ReadU64());
  return position;
}

void AppendDeferred(const DeferredItem& item, std::string* payload) {
  AppendU64(item.item.value(), payload);
  AppendU8(static_cast<uint8_t>(item.error_class), payload);
  AppendU32(item.passes, payload);
  AppendU32(item.attempts, payload);
}

std::string EncodeRun(const RunRecord& record) {
  std::string payload;
  AppendText(record.run_id, &payload);
  AppendText(record.identity.dataset_sha256, &payload);
  AppendU64(static_cast<uint64_t>(record.identity.rows), &payload);
  AppendU64(static_cast<uint64_t>(record.identity.models), &payload);
  AppendText(record.identity.job_yaml, &payload);
  return payload;
}

bool DecodeRun(absl::string_view payload, JournalContent* content) {
  BinaryReader reader(payload);
  RunRecord& run = content->run;
  run.run_id = std::string(reader.ReadText());
  run.identity.dataset_sha256 = std::string(reader.ReadText());
  run.identity.rows = static_cast<int64_t>(reader.ReadU64());
  run.identity.models = static_cast<int64_t>(reader.ReadU64());
  run.identity.job_yaml = std::string(reader.ReadText());
  content->has_run = true;
  return reader.ok();
}

bool DecodeDeferred(Lsn lsn, absl::string_view payload, JournalContent* content) {
  if (payload.size() % kDeferredBytes != 0) return false;
  for (BinaryReader reader(payload); reader.left() > 0;) {
    DeferredItem item;
    item.item = ItemId(reader.ReadU64());
    item.error_class = ErrorClassFromWire(reader.ReadU8());
    item.passes = reader.ReadU32();
    item.attempts = reader.ReadU32();
    content->deferred.push_back({lsn, item});
  }
  return true;
}

bool DecodeBatchIds(absl::string_view payload, JournalContent* content) {
  BinaryReader reader(payload);
  const BatchId up_to(reader.ReadU64());
  if (up_to > content->batch_ids) content->batch_ids = up_to;
  return reader.ok();
}

bool DecodeStart(absl::string_view payload, JournalContent* content) {
  BinaryReader reader(payload);
  const absl::Time time = absl::FromUnixMicros(static_cast<int64_t>(reader.ReadU64()));
  if (content->starts++ == 0) content->first_start = time;
  return reader.ok();
}

bool DecodeWorker(absl::string_view payload, JournalContent* content) {
  BinaryReader reader(payload);
  WorkerRecord record;
  record.present = reader.ReadU8() != 0;
  record.worker_id = std::string(reader.ReadText());
  record.boot_nonce = std::string(reader.ReadText());
  if (!reader.ok()) return false;
  Apply(record, &content->workers);
  return true;
}

bool DecodeDurable(absl::string_view payload, JournalContent* content) {
  BinaryReader reader(payload);
  content->durable = ReadPosition(&reader);
  return reader.ok();
}

bool DecodeState(Lsn lsn, absl::string_view payload, JournalContent* content) {
  BinaryReader reader(payload);
  if (!DecodeRun(reader.ReadText(), content)) return false;
  content->starts = static_cast<int64_t>(reader.ReadU64());
  content->first_start = absl::FromUnixMicros(static_cast<int64_t>(reader.ReadU64()));
  content->batch_ids = BatchId(reader.ReadU64());
  content->durable = ReadPosition(&reader);
  for (uint32_t left = reader.ReadU32(); left > 0 && reader.ok(); --left) {
    std::string worker_id(reader.ReadText());
    content->workers[std::move(worker_id)] = std::string(reader.ReadText());
  }
  return reader.ok() && DecodeDeferred(lsn, reader.ReadBytes(reader.left()), content);
}

absl::Status DecodeRecords(absl::string_view records, JournalContent* content) {
  for (BinaryReader reader(records); reader.left() > 0;) {
    const uint8_t type = reader.ReadU8();
    const Lsn lsn(reader.ReadU64());
    const absl::string_view payload = reader.ReadText();
    if (!reader.ok()) return absl::DataLossError("a record is longer than its frame");
    const bool starts_with_state =
        type == static_cast<uint8_t>(RecordType::kState) && content->last_lsn == Lsn(0);
    if (lsn.value() != content->last_lsn.value() + 1 && !starts_with_state) {
      return absl::DataLossError(
          absl::StrCat("record ", lsn.value(), " comes after record ", content->last_lsn.value()));
    }
    content->last_lsn = lsn;
    bool understood = false;
    switch (static_cast<RecordType>(type)) {
      case RecordType::kRun:
        understood = DecodeRun(payload, content);
        break;
      case RecordType::kDeferred:
        understood = DecodeDeferred(lsn, payload, content);
        break;
      case RecordType::kBatchIds:
        understood = DecodeBatchIds(payload, content);
        break;
      case RecordType::kStart:
        understood = DecodeStart(payload, content);
        break;
      case RecordType::kWorker:
        understood = DecodeWorker(payload, content);
        break;
      case RecordType::kDurable:
        understood = DecodeDurable(payload, content);
        break;
      case RecordType::kState:
        understood = starts_with_state && DecodeState(lsn, payload, content);
        break;
    }
    if (!understood) {
      return absl::DataLossError(absl::StrCat("record ", lsn.value(), " of type ", type,
                                              " is not understood; is it of a newer version?"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AppendRunRecord(Lsn lsn, const RunRecord& record, std::string* records) {
  AppendRecord(RecordType::kRun, lsn, EncodeRun(record), records);
}

void AppendDeferredRecord(Lsn lsn, const std::vector<DeferredItem>& items, std::string* records) {
  std::string payload;
  payload.reserve(items.size() * kDeferredBytes);
  for (const DeferredItem& item : items) AppendDeferred(item, &payload);
  AppendRecord(RecordType::kDeferred, lsn, payload, records);
}

void AppendBatchIdsRecord(Lsn lsn, BatchId up_to, std::string* records) {
  std::string payload;
  AppendU64(up_to.value(), &payload);
  AppendRecord(RecordType::kBatchIds, lsn, payload, records);
}

void AppendWorkerRecord(Lsn lsn, const WorkerRecord& record, std::string* records) {
  std::string payload;
  AppendU8(record.present ? 1 : 0, &payload);
  AppendText(record.worker_id, &payload);
  AppendText(record.boot_nonce, &payload);
  AppendRecord(RecordType::kWorker, lsn, payload, records);
}

bool Apply(const WorkerRecord& record, PresentWorkers* workers) {
  const auto it = workers->find(record.worker_id);
  const bool is_present = it != workers->end() && it->second == record.boot_nonce;
  if (is_present == record.present) return false;
  if (record.present) {
    (*workers)[record.worker_id] = record.boot_nonce;
  } else {
    workers->erase(it);
  }
  return true;
}

void AppendDurableRecord(Lsn lsn, const LogPosition& position, std::string* records) {
  std::string payload;
  AppendPosition(position, &payload);
  AppendRecord(RecordType::kDurable, lsn, payload, records);
}

void AppendStartRecord(Lsn lsn, absl::Time time, std::string* records) {
  std::string payload;
  AppendU64(static_cast<uint64_t>(absl::ToUnixMicros(time)), &payload);
  AppendRecord(RecordType::kStart, lsn, payload, records);
}

std::string MakeJournalFrame(absl::string_view records) {
  std::string frame;
  frame.reserve(kFrameHeaderBytes + records.size());
  AppendU32(static_cast<uint32_t>(records.size()), &frame);
  AppendU32(Crc32c(records), &frame);
  frame.append(records.data(), records.size());
  return frame;
}

absl::StatusOr<JournalContent> ReadJournal(absl::string_view bytes) {
  JournalContent content;
  while (content.valid_bytes < bytes.size()) {
    const absl::string_view rest = bytes.substr(content.valid_bytes);
    const std::optional<absl::string_view> records = ReadFrame(rest);
    if (!records.has_value()) {
      if (HasGoodFrameAfter(rest, content.last_lsn)) {
        return absl::DataLossError(
            absl::StrCat("damaged at byte ", content.valid_bytes, " before good records"));
      }
      break;
    }
    HR_RETURN_IF_ERROR(
        Annotate(DecodeRecords(*records, &content), absl::StrCat("at byte ", content.valid_bytes)));
    content.valid_bytes += kFrameHeaderBytes + records->size();
  }
  return content;
}

std::string CompactJournal(const JournalContent& content) {
  std::string payload;
  AppendText(EncodeRun(content.run), &payload);
  AppendU64(static_cast<uint64_t>(content.starts), &payload);
  AppendU64(static_cast<uint64_t>(absl::ToUnixMicros(content.first_start)), &payload);
  AppendU64(content.batch_ids.value(), &payload);
  AppendPosition(content.durable, &payload);
  AppendU32(static_cast<uint32_t>(content.workers.size()), &payload);
  for (const auto& [worker_id, boot_nonce] : content.workers) {
    AppendText(worker_id, &payload);
    AppendText(boot_nonce, &payload);
  }
  // Of each item the last deferral counts, which sorts last.
  std::vector<const DeferredItem*> deferred;
  deferred.reserve(content.deferred.size());
  for (const JournalContent::Deferred& one : content.deferred) deferred.push_back(&one.item);
  std::sort(deferred.begin(), deferred.end(), [](const DeferredItem* a, const DeferredItem* b) {
    return std::pair(a->item, a) < std::pair(b->item, b);
  });
  for (size_t i = 0; i < deferred.size(); ++i) {
    if (i + 1 < deferred.size() && deferred[i + 1]->item == deferred[i]->item) continue;
    AppendDeferred(*deferred[i], &payload);
  }
  std::string records;
  AppendRecord(RecordType::kState, content.last_lsn, payload, &records);
  return MakeJournalFrame(records);
}

}  // namespace headrace
