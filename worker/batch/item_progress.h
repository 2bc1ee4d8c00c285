// What the item loop knows of its item between two waits. Shared by item_loop.cc and item_hedge.cc.
#ifndef HEADRACE_WORKER_BATCH_ITEM_PROGRESS_H_
#define HEADRACE_WORKER_BATCH_ITEM_PROGRESS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/time.h"
#include "common/quota/admission.h"
#include "worker/batch/item_loop.h"
#include "worker/batch/retry_rule.h"
#include "worker/http/http.h"
#include "worker/provider/codec.h"

namespace headrace {

// One call.
struct ItemLoop::Attempt {
  quota::Ticket ticket;
  http::CallResult result;
  provider::Reply reply;
};

struct ItemLoop::Progress {
  Progress(const ItemInput& i, const RetryOptions& retry) : input(i), rule(retry) {}

  const ItemInput input;
  RetryRule rule;
  MonoTime begun;
  absl::Time started;
  provider::BuiltRequest built;
  quota::Ticket ticket;     // of the attempt to come
  http::CallResult result;  // of the last attempt, as is the reply
  provider::Reply reply;
  bool holds_line = false;
  bool hedged = false;  // once in an item's life
  uint32_t attempts = 0;
  uint32_t possibly_billed = 0;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_BATCH_ITEM_PROGRESS_H_
