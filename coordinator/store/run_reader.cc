#include "coordinator/store/run_reader.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/store/journal.h"
#include "coordinator/store/log_reader.h"
#include "coordinator/store/run_files.h"

namespace headrace {
namespace {

using OnLine = absl::FunctionRef<absl::Status(absl::string_view, const ResultLineKey&)>;

class Reader {
 public:
  Reader(Disk* disk, const std::string& dir, const RunIdentity& identity, OnLine on_line)
      : disk_(disk),
        dir_(dir),
        on_line_(on_line),
        seen_(static_cast<size_t>(identity.rows * identity.models)) {
    check_.rows = identity.rows;
    check_.models = identity.models;
  }

  absl::Status ReadLog(const std::string& name) {
    absl::StatusOr<std::unique_ptr<File>> file = disk_->OpenRead(absl::StrCat(dir_, "/", name));
    if (absl::IsNotFound(file.status())) return absl::OkStatus();
    if (!file.ok()) return file.status();
    LineReader reader(file->get(), 0, 1);
    LogLine line;
    while (true) {
      HR_ASSIGN_OR_RETURN(const bool more, reader.Next(&line));
      if (!more) return absl::OkStatus();
      HR_RETURN_IF_ERROR(Take(name, line));
    }
  }

  RunCheck Finish() && {
    for (size_t item = 0; item < seen_.size(); ++item) {
      if (seen_[item]) continue;
      ++check_.missing;
      if (check_.missing_items.size() < RunCheck::kMaxListed) {
        check_.missing_items.push_back(ItemId(item));
      }
    }
    return std::move(check_);
  }

 private:
  absl::Status Take(const std::string& name, const LogLine& line) {
    if (!line.complete) {
      check_.unfinished_bytes += static_cast<int64_t>(line.text.size());
      return absl::OkStatus();
    }
    const absl::StatusOr<ResultLineKey> key = CheckResultLine(line.text);
    if (!key.ok()) {
      ++check_.damaged;
      if (check_.damaged_lines.size() < RunCheck::kMaxListed) {
        check_.damaged_lines.push_back({name, line.number, std::string(key.status().message())});
      }
      return absl::OkStatus();
    }
    if (key->item.value() >= seen_.size()) {
      ++check_.foreign;
      return absl::OkStatus();
    }
    if (seen_[key->item.value()]) {
      ++check_.duplicates;
      if (check_.duplicate_items.size() < RunCheck::kMaxListed) {
        check_.duplicate_items.push_back(key->item);
      }
      return absl::OkStatus();
    }
    seen_[key->item.value()] = true;
    ++(key->error_class == ErrorClass::kNone ? check_.ok : check_.failed);
    return Annotate(on_line_(line.text, *key), absl::StrCat(name, ":", line.number));
  }

  Disk* const disk_;
  const std::string& dir_;
  OnLine on_line_;
  std::vector<bool> seen_;
  RunCheck check_;
};

}  // namespace

absl::StatusOr<RunIdentity> ReadRunIdentity(Disk* disk, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kJournalFile);
  const absl::StatusOr<std::string> bytes = disk->ReadWhole(path);
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(absl::StrCat(dir, " is not a run directory: no ", kJournalFile));
  }
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<JournalContent> content = ReadJournal(*bytes);
  if (!content.ok()) return Annotate(content.status(), path);
  if (!content->has_run) {
    return absl::NotFoundError(absl::StrCat(dir, " holds a run that never began"));
  }
  return std::move(content->run.identity);
}

absl::StatusOr<RunCheck> ReadRun(Disk* disk, const std::string& dir, OnLine on_line) {
  HR_ASSIGN_OR_RETURN(const RunIdentity identity, ReadRunIdentity(disk, dir));
  Reader reader(disk, dir, identity, on_line);
  HR_RETURN_IF_ERROR(reader.ReadLog(kResultsFile));
  HR_RETURN_IF_ERROR(reader.ReadLog(kErrorsFile));
  return std::move(reader).Finish();
}

absl::StatusOr<RunCheck> ReadRunFields(
    Disk* disk, const std::string& dir,
    absl::FunctionRef<absl::Status(const ResultLineKey& key, const ResultFields* fields)> on_line) {
  ResultLineParser parser;
  ResultFields fields;
  int64_t unreadable = 0;
  HR_ASSIGN_OR_RETURN(RunCheck check,
                      ReadRun(disk, dir, [&](absl::string_view line, const ResultLineKey& key) {
                        const bool readable = parser.Parse(line, &fields).ok();
                        if (!readable) ++unreadable;
                        return on_line(key, readable ? &fields : nullptr);
                      }));
  check.damaged += unreadable;
  return check;
}

absl::StatusOr<RunCheck> VerifyRun(Disk* disk, const std::string& dir) {
  return ReadRun(disk, dir,
                 [](absl::string_view, const ResultLineKey&) { return absl::OkStatus(); });
}

std::string DescribeRunCheck(const RunCheck& check) {
  std::string out = absl::StrCat(check.rows, " rows x ", check.models, " models: ", check.ok,
                                 " ok, ", check.failed, " failed, ", check.missing, " missing\n");
  const auto count = [&out](int64_t number, absl::string_view what) {
    if (number > 0) absl::StrAppend(&out, number, " ", what, "\n");
  };
  count(check.duplicates, "lines repeat an item (the first one counts)");
  count(check.foreign, "lines are of items that the run does not have");
  count(check.unfinished_bytes, "bytes after the last line end: a write that did not finish");
  count(check.damaged, "lines are damaged and were skipped");
  for (const DamagedLine& line : check.damaged_lines) {
    absl::StrAppend(&out, line.file, ":", line.line, ": damaged: ", line.reason, "\n");
  }
  const auto list = [&out](const std::vector<ItemId>& items, absl::string_view what) {
    for (const ItemId item : items) absl::StrAppend(&out, "item ", item.value(), ": ", what, "\n");
  };
  list(check.missing_items, "missing");
  list(check.duplicate_items, "repeated");
  return out;
}

}  // namespace headrace
