#include "coordinator/dataset/prefix_order.h"

#include <algorithm>

#include "coordinator/dataset/hash128.h"

namespace headrace {

void PrefixOrder::Add(const RenderedRow& row) {
  text_.clear();
  for (const std::string* part : {&row.system, &row.user, &row.messages_json, &row.body}) {
    text_.append(*part, 0, kPrefixBytes.back() - std::min(kPrefixBytes.back(), text_.size()));
    text_.push_back('\n');  // where one part ends counts too
  }
  Entry entry;
  entry.row = static_cast<uint32_t>(entries_.size());
  const absl::string_view text = text_;
  uint64_t hash = 0;
  size_t begin = 0;
  for (size_t i = 0; i < kPrefixBytes.size() && kPrefixBytes[i] <= text.size(); ++i) {
    const uint64_t part = HashText(text.substr(begin, kPrefixBytes[i] - begin)).low;
    hash = (hash ^ part) * 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio, odd: mixes upwards
    entry.prefixes[i] = static_cast<uint32_t>(hash >> 32) | 1;  // 0 says "shorter"
    begin = kPrefixBytes[i];
  }
  entries_.push_back(entry);
}

std::vector<uint32_t> PrefixOrder::Finish() {
  std::sort(entries_.begin(), entries_.end());
  for (size_t length = 0; length < kPrefixBytes.size(); ++length) {
    // What is shorter was replaced by first rows already, which tell the groups apart as well.
    const auto same = [length](const Entry& a, const Entry& b) {
      return a.prefixes[length] != 0 &&
             std::equal(a.prefixes.begin(), a.prefixes.begin() + static_cast<long>(length) + 1,
                        b.prefixes.begin());
    };
    for (auto begin = entries_.begin(); begin != entries_.end();) {
      uint32_t first = begin->row;
      auto end = begin + 1;
      for (; end != entries_.end() && same(*begin, *end); ++end) first = std::min(first, end->row);
      for (; begin != end; ++begin) begin->prefixes[length] = first;
    }
  }
  std::sort(entries_.begin(), entries_.end());
  std::vector<uint32_t> rows;
  const bool as_in_file =
      std::is_sorted(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.row < b.row; });
  if (!as_in_file) {
    rows.reserve(entries_.size());
    for (const Entry& entry : entries_) rows.push_back(entry.row);
  }
  entries_ = {};
  return rows;
}

}  // namespace headrace
