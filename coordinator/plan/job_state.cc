#include "coordinator/plan/job_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace {
namespace {

// Shape of a snapshot: rows, models, then failures by class, then the packed states.
constexpr size_t kHeaderWords = 2 + 256;

}  // namespace

JobState::JobState(int64_t rows, int64_t models, int passes, RowOrder order)
    : rows_(rows),
      models_(models),
      passes_(passes),
      order_(std::move(order)),
      states_(static_cast<size_t>((rows * models + 1) / 2), 0),
      per_model_(static_cast<size_t>(models)) {
  HR_CHECK(rows > 0 && models > 0 && passes >= 1 && passes <= kMaxPasses);
}

uint8_t JobState::Get(ItemId item) const {
  const uint8_t pair = states_[item.value() / 2];
  return item.value() % 2 == 0 ? pair & 15 : pair >> 4;
}

void JobState::Count(ItemId item, uint8_t state, int64_t sign) {
  if (state == kPending) return;
  PerModel& per_model = per_model_[model(item).value()];
  if (state >= kFirstDeferred) {
    deferred_ += sign;
    per_model.deferred += sign;
    return;
  }
  per_model.resolved += sign;
  if (state == kOkState) {
    ok_ += sign;
    per_model.ok += sign;
  } else {
    failed_ += sign;
  }
}

void JobState::Set(ItemId item, uint8_t state) {
  Count(item, Get(item), -1);
  Count(item, state, +1);
  uint8_t& pair = states_[item.value() / 2];
  pair = item.value() % 2 == 0 ? static_cast<uint8_t>((pair & 0xf0) | state)
                               : static_cast<uint8_t>((pair & 0x0f) | (state << 4));
}

bool JobState::BelongsToPass(uint8_t state, uint32_t pass) {
  if (pass == 1) return state == kPending;
  return state == kFirstDeferred + pass - 2;
}

std::vector<RowIndex> JobState::Take(ModelIndex model, size_t max) {
  PerModel& per_model = per_model_[model.value()];
  std::vector<RowIndex> taken;
  while (true) {
    while (!per_model.returned.empty() && taken.size() < max) {
      const RowIndex row = order_.At(*per_model.returned.begin());
      per_model.returned.erase(per_model.returned.begin());
      if (BelongsToPass(Get(item(row, model)), per_model.pass)) taken.push_back(row);
    }
    for (; per_model.cursor < rows_ && taken.size() < max; ++per_model.cursor) {
      const RowIndex row = order_.At(per_model.cursor);
      const ItemId id = item(row, model);
      if (BelongsToPass(Get(id), per_model.pass) && !adopted_.contains(id)) taken.push_back(row);
    }
    if (!taken.empty()) break;
    const bool exhausted = per_model.cursor == rows_ && per_model.outstanding == 0;
    if (!exhausted || per_model.deferred == 0) break;
    if (static_cast<int>(per_model.pass) >= passes_) break;
    ++per_model.pass;
    per_model.cursor = 0;
  }
  per_model.outstanding += static_cast<int64_t>(taken.size());
  return taken;
}

bool JobState::has_untaken(ModelIndex model) const {
  const PerModel& per_model = per_model_[model.value()];
  return per_model.cursor < rows_ || !per_model.returned.empty();
}

bool JobState::taken(ItemId item) const {
  if (adopted_.contains(item)) return true;
  const PerModel& per_model = per_model_[model(item).value()];
  const int64_t at = order_.PositionOf(row(item));
  return at < per_model.cursor && BelongsToPass(Get(item), per_model.pass) &&
         !per_model.returned.contains(at);
}

bool JobState::Adopt(ItemId item) {
  if (resolved(item) || taken(item)) return false;
  PerModel& per_model = per_model_[model(item).value()];
  per_model.returned.erase(order_.PositionOf(row(item)));
  adopted_.insert(item);
  ++per_model.outstanding;
  return true;
}

void JobState::Return(ItemId item) {
  if (!taken(item)) return;
  PerModel& per_model = per_model_[model(item).value()];
  adopted_.erase(item);
  --per_model.outstanding;
  const int64_t at = order_.PositionOf(row(item));
  if (at < per_model.cursor) per_model.returned.insert(at);
}

JobState::Verdict JobState::Resolve(ItemId item, ErrorClass error_class) {
  if (resolved(item)) {
    ++superseded_;
    return Verdict::kSuperseded;
  }
  if (taken(item)) --per_model_[model(item).value()].outstanding;
  adopted_.erase(item);
  if (error_class == ErrorClass::kNone) {
    Set(item, kOkState);
    return Verdict::kOk;
  }
  const int passes_failed = static_cast<int>(failed_passes(item)) + 1;
  if (GetErrorClassInfo(error_class).next_pass && passes_failed < passes_) {
    Set(item, static_cast<uint8_t>(kFirstDeferred + passes_failed - 1));
    return Verdict::kDeferred;
  }
  Set(item, kFailedState);
  ++failures_[static_cast<size_t>(error_class)];
  return Verdict::kFailed;
}

void JobState::RestoreOutcome(ItemId item, ErrorClass error_class) {
  const uint8_t state = Get(item);
  if (state == kOkState) return;
  if (error_class == ErrorClass::kNone) {
    Set(item, kOkState);
  } else if (state != kFailedState) {
    Set(item, kFailedState);
    ++failures_[static_cast<size_t>(error_class)];
  }
}

void JobState::RestoreDeferred(ItemId item, uint32_t passes) {
  if (resolved(item) || passes == 0) return;
  // A job that is resumed with fewer passes runs such an item once more, in its last pass.
  const int last = std::max(passes_ - 1, 1);
  const int failed = std::min<int>(static_cast<int>(passes), last);
  Set(item, static_cast<uint8_t>(kFirstDeferred + failed - 1));
}

bool JobState::resolved(ItemId item) const {
  const uint8_t state = Get(item);
  return state == kOkState || state == kFailedState;
}

uint32_t JobState::failed_passes(ItemId item) const {
  const uint8_t state = Get(item);
  return state < kFirstDeferred ? 0 : state - kFirstDeferred + 1;
}

std::string JobState::Snapshot() const {
  std::string out(kHeaderWords * sizeof(int64_t), '\0');
  auto put = [&out](size_t word, int64_t value) {
    std::memcpy(out.data() + word * sizeof(value), &value, sizeof(value));
  };
  put(0, rows_);
  put(1, models_);
  for (size_t i = 0; i < failures_.size(); ++i) put(2 + i, failures_[i]);
  out.append(reinterpret_cast<const char*>(states_.data()), states_.size());
  return out;
}

absl::Status JobState::Restore(absl::string_view snapshot) {
  constexpr size_t kHeaderBytes = kHeaderWords * sizeof(int64_t);
  auto get = [&snapshot](size_t word) {
    int64_t value = 0;
    std::memcpy(&value, snapshot.data() + word * sizeof(value), sizeof(value));
    return value;
  };
  if (snapshot.size() != kHeaderBytes + states_.size() || get(0) != rows_ || get(1) != models_) {
    return absl::DataLossError(
        absl::StrCat("the snapshot is not of a job of ", rows_, " rows and ", models_, " models"));
  }
  for (size_t i = 0; i < failures_.size(); ++i) failures_[i] = get(2 + i);
  const char* packed = snapshot.data() + kHeaderBytes;
  for (int64_t i = 0; i < total(); ++i) {
    const auto pair = static_cast<uint8_t>(packed[i / 2]);
    Set(ItemId(static_cast<uint64_t>(i)), i % 2 == 0 ? pair & 15 : pair >> 4);
  }
  return absl::OkStatus();
}

}  // namespace headrace
