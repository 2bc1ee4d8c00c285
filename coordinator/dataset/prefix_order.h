// The order of rows in which a provider's prompt cache is of most use: rows whose requests begin
// with the same text come one after the other. Pure.
//
// A row is known by hashes of the first 1, 1.5, 2, 3, 4, 6, ... 64 KiB of its text. Rows with the
// same first KiB stand together, in that group those with the same first 1.5 KiB, and so on; groups
// and rows stay in the order of the file otherwise. Caches begin at about 1,024 tokens (OpenAI
// "Prompt caching" and Anthropic "Prompt caching", 2025), some at 64 (DeepSeek): with less than a
// KiB in common there is little to gain.
#ifndef HEADRACE_COORDINATOR_DATASET_PREFIX_ORDER_H_
#define HEADRACE_COORDINATOR_DATASET_PREFIX_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/dataset/dataset.h"

namespace headrace {

class PrefixOrder {
 public:
  // Rows are numbered by 32 bits.
  static constexpr uint64_t kMaxRows = uint64_t{1} << 31;

  // The next row, at most kMaxRows of them. 52 bytes each until Finish().
  void Add(const RenderedRow& row);

  // The rows in the order to take them; empty when that is the order of the file. Once.
  std::vector<uint32_t> Finish();

 private:
  static constexpr std::array<size_t, 12> kPrefixBytes = {1 << 10,  3 << 9,   2 << 10,  3 << 10,
                                                          4 << 10,  6 << 10,  8 << 10,  12 << 10,
                                                          16 << 10, 24 << 10, 32 << 10, 64 << 10};

  struct Entry {
    // Of each length the hash of the prefix, 0 when the text is shorter; later the first row of
    // those that share it.
    std::array<uint32_t, kPrefixBytes.size()> prefixes{};
    uint32_t row = 0;

    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  std::vector<Entry> entries_;
  std::string text_;  // of the row at hand, as far as it counts
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_PREFIX_ORDER_H_
