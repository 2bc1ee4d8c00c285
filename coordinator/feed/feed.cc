#include "coordinator/feed/feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

v1::Item ToItem(ItemId id, RenderedRow row) {
  v1::Item item;
  item.set_item(id.value());
  item.set_row(row.row.value());
  // Most rows have two of these, and an empty text would cost an allocation too.
  if (!row.custom_id.empty()) *item.mutable_custom_id() = std::move(row.custom_id);
  if (!row.user.empty()) *item.mutable_user() = std::move(row.user);
  if (!row.system.empty()) *item.mutable_system() = std::move(row.system);
  if (!row.expected.empty()) *item.mutable_expected() = std::move(row.expected);
  if (!row.body.empty()) *item.mutable_body() = std::move(row.body);
  if (!row.url.empty()) *item.mutable_url() = std::move(row.url);
  if (!row.messages_json.empty()) *item.mutable_messages_json() = std::move(row.messages_json);
  return item;
}

}  // namespace

Feed::Feed(ModelIndex model, size_t depth, size_t max_item_bytes, const Dataset* dataset,
           JobState* state, BlockingThread* thread, TaskScope* scope, Hooks hooks)
    : model_(model),
      depth_(depth),
      max_item_bytes_(max_item_bytes),
      dataset_(dataset),
      state_(state),
      thread_(thread),
      scope_(scope),
      hooks_(std::move(hooks)) {}

Feed::~Feed() = default;

void Feed::Refill() {
  // Reading in halves of the depth keeps the dataset thread's turns long and the memory bounded.
  if (reading_ || scope_->stopped() || ready_.size() > depth_ / 2) return;
  std::vector<RowIndex> wanted = state_->Take(model_, depth_ - ready_.size());
  if (wanted.empty()) return;
  reading_ = true;
  scope_->Spawn(ReadAhead(this, std::move(wanted)));
}

Task<void> Feed::ReadAhead(Feed* self, std::vector<RowIndex> wanted) {
  auto read = [self, &wanted] { return self->ReadRows(wanted); };
  Rows rows = co_await self->thread_->Run(read);
  self->reading_ = false;
  if (!rows.status.ok()) {
    self->hooks_.on_error(rows.status);
    co_return;
  }
  for (RenderedRow& row : rows.rows) {
    std::string error = std::move(row.error);
    v1::Item item = ToItem(self->state_->item(row.row, self->model_), std::move(row));
    if (error.empty() && item.ByteSizeLong() > self->max_item_bytes_) {
      error = absl::StrCat("the request of this row has ", item.ByteSizeLong(),
                           " bytes, more than ", self->max_item_bytes_, " that one item may have");
      item.clear_body();
    }
    if (error.empty()) {
      self->ready_.push_back(std::move(item));
    } else {
      self->hooks_.on_bad_row(std::move(item), std::move(error));
    }
  }
  self->hooks_.on_ready();
}

Feed::Rows Feed::ReadRows(const std::vector<RowIndex>& wanted) {
  Rows result;
  // A later pass, and what came back from a lost worker, goes over the dataset again.
  const bool back = wanted.front().value() < next_row_;
  if (cursor_ == nullptr || (back && !dataset_->seekable())) {
    absl::StatusOr<std::unique_ptr<RowCursor>> cursor = dataset_->NewCursor();
    if (!cursor.ok()) {
      result.status = cursor.status();
      return result;
    }
    cursor_ = *std::move(cursor);
  }
  result.rows.reserve(wanted.size());
  for (RowIndex row : wanted) {
    absl::StatusOr<std::optional<RenderedRow>> rendered = cursor_->ReadAt(row);
    if (!rendered.ok()) {
      result.status = rendered.status();
      return result;
    }
    if (!rendered->has_value() || (*rendered)->row != row) {
      result.status = absl::DataLossError(
          absl::StrCat("row ", row.value(), " is gone: the dataset changed while the job ran"));
      return result;
    }
    next_row_ = row.value() + 1;
    result.rows.push_back(*std::move(*rendered));
  }
  return result;
}

std::vector<v1::Item> Feed::Take(size_t max, size_t max_bytes) {
  std::vector<v1::Item> items;
  items.reserve(std::min(max, ready_.size()));
  size_t bytes = 0;
  while (items.size() < max && !ready_.empty()) {
    v1::Item& item = ready_.front();
    if (!state_->resolved(ItemId(item.item()))) {
      bytes += item.ByteSizeLong();
      if (bytes > max_bytes && !items.empty()) break;
      items.push_back(std::move(item));
    }
    ready_.pop_front();
  }
  Refill();
  return items;
}

void Feed::GiveBack(std::vector<v1::Item> items) {
  for (auto it = items.rbegin(); it != items.rend(); ++it) ready_.push_front(std::move(*it));
}

}  // namespace headrace
