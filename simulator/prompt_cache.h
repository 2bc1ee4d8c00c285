// The prompt cache of a provider: what requests began with lately, least recently used out first.
// Pure.
#ifndef HEADRACE_SIMULATOR_PROMPT_CACHE_H_
#define HEADRACE_SIMULATOR_PROMPT_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace headrace::simulator {

class PromptCache {
 public:
  // As OpenAI counts ("Prompt caching", 2025): from 1,024 tokens on, in steps of 128; a token is
  // four bytes here.
  static constexpr size_t kStepBytes = 128 * 4;
  static constexpr size_t kMinSteps = 8;

  // Keeps `max_steps` steps of prefixes; 0: none, so nothing is ever found.
  explicit PromptCache(size_t max_steps) : max_steps_(max_steps) {}

  // How many tokens of `body` an earlier request began with; keeps what this one begins with.
  int64_t Use(absl::string_view body);

 private:
  const size_t max_steps_;
  std::list<uint64_t> used_;  // hashes of prefixes, last used first
  absl::flat_hash_map<uint64_t, std::list<uint64_t>::iterator> steps_;
};

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_PROMPT_CACHE_H_
