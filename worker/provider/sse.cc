#include "worker/provider/sse.h"

#include <cstring>

#include "absl/strings/match.h"

namespace headrace::provider {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The position of the first CR or LF, or npos. Two memchr calls, the second bounded by the first,
// are faster than one loop over the bytes.
size_t FindLineEnd(absl::string_view text) {
  if (text.empty()) return absl::string_view::npos;
  const auto* lf = static_cast<const char*>(std::memchr(text.data(), '\n', text.size()));
  const size_t bound = lf == nullptr ? text.size() : static_cast<size_t>(lf - text.data());
  if (bound > 0) {
    const auto* cr = static_cast<const char*>(std::memchr(text.data(), '\r', bound));
    if (cr != nullptr) return static_cast<size_t>(cr - text.data());
  }
  return lf == nullptr ? absl::string_view::npos : bound;
}

}  // namespace

void SseParser::DropByteOrderMark() {
  while (mark_bytes_ >= 0 && !piece_.empty()) {
    if (piece_.front() == kByteOrderMark[static_cast<size_t>(mark_bytes_)]) {
      piece_.remove_prefix(1);
      if (++mark_bytes_ == static_cast<int>(kByteOrderMark.size())) mark_bytes_ = -1;
    } else {
      const absl::string_view seen = kByteOrderMark.substr(0, static_cast<size_t>(mark_bytes_));
      line_.append(seen.data(), seen.size());
      mark_bytes_ = -1;
    }
  }
}

// Takes one line, without its end, out of the piece; false when the piece holds no line end.
bool SseParser::NextLine(absl::string_view* line) {
  if (line_given_) {
    line_.clear();
    line_given_ = false;
  }
  if (after_cr_ && !piece_.empty()) {
    if (piece_.front() == '\n') piece_.remove_prefix(1);
    after_cr_ = false;
  }
  const size_t end = FindLineEnd(piece_);
  if (end == absl::string_view::npos) {
    line_.append(piece_.data(), piece_.size());
    piece_ = {};
    return false;
  }
  after_cr_ = piece_[end] == '\r';
  if (line_.empty()) {
    *line = piece_.substr(0, end);
  } else {
    line_.append(piece_.data(), end);
    *line = line_;
    line_given_ = true;
  }
  piece_.remove_prefix(end + 1);
  return true;
}

void SseParser::AddData(absl::string_view value) {
  if (!has_data_ && !line_given_) {
    data_view_ = value;
  } else {
    KeepData();
    if (has_data_) data_.push_back('\n');
    data_.append(value.data(), value.size());
  }
  has_data_ = true;
}

// Copies the data out of the piece, which is about to go or to be joined by another line.
void SseParser::KeepData() {
  if (data_view_.data() == nullptr) return;
  data_.assign(data_view_.data(), data_view_.size());
  data_view_ = {};
}

void SseParser::Field(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == 0) {
    ++comments_;
    return;
  }
  const absl::string_view name = line.substr(0, colon);
  absl::string_view value;
  if (colon != absl::string_view::npos) value = line.substr(colon + 1);
  if (absl::StartsWith(value, " ")) value.remove_prefix(1);
  if (name == "data") {
    AddData(value);
  } else if (name == "event") {
    type_.assign(value.data(), value.size());
  } else if (name == "error") {
    type_ = "error";
    AddData(value);
  }
}

bool SseParser::Dispatch(SseEvent* event) {
  if (!has_data_) {
    type_.clear();
    return false;
  }
  event->type = type_;
  event->data = data_view_.data() != nullptr ? data_view_ : absl::string_view(data_);
  dispatched_ = true;
  ++events_;
  return true;
}

bool SseParser::TooLarge() const {
  return line_.size() > kMaxEventBytes || data_.size() > kMaxEventBytes ||
         data_view_.size() > kMaxEventBytes;
}

SseParser::Step SseParser::Next(SseEvent* event) {
  if (dispatched_) {
    dispatched_ = false;
    has_data_ = false;
    data_view_ = {};
    data_.clear();
    type_.clear();
  }
  DropByteOrderMark();
  absl::string_view line;
  while (NextLine(&line)) {
    if (line.size() > kMaxEventBytes) return Step::kTooLarge;
    if (!line.empty()) {
      Field(line);
      if (TooLarge()) return Step::kTooLarge;
    } else if (Dispatch(event)) {
      return Step::kEvent;
    }
  }
  KeepData();
  return TooLarge() ? Step::kTooLarge : Step::kNeedMore;
}

bool SseParser::Finish(SseEvent* event) {
  Feed("\n\n");
  // A stream that ended with CR must not have the line end of Feed() swallowed as its LF.
  after_cr_ = false;
  return Next(event) == Step::kEvent;
}

}  // namespace headrace::provider
