// Cooperative cancellation that is level-triggered and sticky: once stopped, every later wait on
// the same token fails at once, and the first reason is the recorded one.
//
// Stops flow downwards only: stopping a source stops the sources made from its token, never its
// parent. Everything here belongs to one reactor thread; another thread posts.
#ifndef HEADRACE_COMMON_ASYNC_STOP_H_
#define HEADRACE_COMMON_ASYNC_STOP_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/async/list.h"

namespace headrace {

enum class StopCode {
  kNone = 0,
  kDeadline,     // the owner's time is up
  kShutdown,     // the process or the role ends
  kDrain,        // no new work; what is under way may end
  kPolicy,       // a failure policy ended the scope
  kLeaseLost,    // the coordinator gave the batch to another worker
  kAlreadyDone,  // the item has a durable outcome from elsewhere
  kAccountStop,  // the provider refuses the account: no money, bad key
  kConfigStop,   // the same configuration error again and again
  kPeerLost,     // the other side of a stream is gone
  kTimeout,      // one timer of one operation
  kUser,         // cancelled by a person
  kOwnerDone,    // the owner needs the result no more
};

absl::string_view StopCodeName(StopCode code);

struct StopReason {
  StopCode code = StopCode::kNone;
  std::string text;  // for people; may be empty
};

class StopToken;

// Runs once when its token stops, at once if that has already happened; never after destruction.
// The callback must not destroy the source that is stopping.
class StopCallback : public ListNode<StopCallback> {
 public:
  using Function = void (*)(void* context);

  // Inactive until Arm().
  StopCallback() = default;
  ~StopCallback() { Unlink(); }

  void Arm(StopToken token, Function function, void* context);
  void Disarm() { Unlink(); }

 private:
  friend class StopSource;

  Function function_ = nullptr;
  void* context_ = nullptr;
};

// The owner's end: an object that can be stopped. It must outlive every wait on its tokens.
class StopSource {
 public:
  StopSource() = default;
  // Stops, with the same reason, when `parent` does.
  explicit StopSource(StopToken parent);
  ~StopSource();
  StopSource(const StopSource&) = delete;
  StopSource& operator=(const StopSource&) = delete;

  // Later calls do nothing. Runs the callbacks before it returns.
  void RequestStop(StopReason reason);
  void RequestStop(StopCode code) { RequestStop(StopReason{code, {}}); }

  bool stopped() const { return reason_.code != StopCode::kNone; }
  // kNone until stopped.
  const StopReason& reason() const { return reason_; }
  StopToken token();

 private:
  friend class StopCallback;

  StopReason reason_;
  List<StopCallback> callbacks_;
  StopCallback parent_callback_;
  const StopSource* parent_ = nullptr;
};

// The view of a source that waits take. A default token never stops.
class StopToken {
 public:
  StopToken() = default;

  bool stopped() const { return source_ != nullptr && source_->stopped(); }
  const StopReason& reason() const;

 private:
  friend class StopCallback;
  friend class StopSource;
  explicit StopToken(StopSource* source) : source_(source) {}

  StopSource* source_ = nullptr;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_STOP_H_
