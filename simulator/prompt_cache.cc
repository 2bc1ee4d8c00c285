#include "simulator/prompt_cache.h"

#include "simulator/request.h"

namespace headrace::simulator {

int64_t PromptCache::Use(absl::string_view body) {
  if (max_steps_ == 0) return 0;
  uint64_t hash = 0;
  size_t found = 0;
  bool all_found = true;
  for (size_t begin = 0; begin + kStepBytes <= body.size(); begin += kStepBytes) {
    hash = StableHash(body.substr(begin, kStepBytes), hash);
    const auto step = steps_.find(hash);
    if (step != steps_.end()) {
      used_.splice(used_.begin(), used_, step->second);
      if (all_found) ++found;
      continue;
    }
    all_found = false;
    used_.push_front(hash);
    steps_[hash] = used_.begin();
    if (steps_.size() > max_steps_) {
      steps_.erase(used_.back());
      used_.pop_back();
    }
  }
  return found < kMinSteps ? 0 : static_cast<int64_t>(found * kStepBytes / 4);
}

}  // namespace headrace::simulator
