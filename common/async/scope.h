// TaskScope: the owner of concurrent children, none of which outlives it.
#ifndef HEADRACE_COMMON_ASYNC_SCOPE_H_
#define HEADRACE_COMMON_ASYNC_SCOPE_H_

#include <coroutine>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"

namespace headrace {

// Runs child tasks on the reactor until all have ended. Lives in the frame of the coroutine that
// awaits Join(), or in a class as its last member; destroying it with live children aborts.
//
//   TaskScope scope(reactor, stop);
//   for (...) scope.Spawn(Child(..., scope.token()));
//   co_await scope.Join();
//
// The scope's state is OPEN until Join() or RequestStop(); then Spawn refuses. A stop only asks:
// the children end by themselves at their next wait. A child that throws is a bug and aborts the
// process with what it threw; work that may fail returns its failure as a value.
class TaskScope : private EndOfTurn {
 public:
  // Stops with `parent`.
  TaskScope(Reactor* reactor, StopToken parent);
  ~TaskScope() override;

  // Starts `child` in a later step of the loop. False, with the child dropped before its start,
  // once the scope is stopped or joined.
  bool Spawn(Task<void> child);

  // Asks all children to stop. The first reason wins.
  void RequestStop(StopReason reason) { stop_.RequestStop(std::move(reason)); }
  StopToken token() { return stop_.token(); }
  bool stopped() const { return stop_.stopped(); }
  const StopReason& reason() const { return stop_.reason(); }
  size_t live() const { return live_; }

  // Ends when the last child has ended and its frame is gone. Takes no stop token on purpose: stop
  // the scope instead. May be awaited once by one coroutine.
  Task<void> Join();
  // Ends when no child is live, without closing the scope.
  Task<void> WaitIdle();

 private:
  void OnEndOfTurn() override;
  static void OnChildDone(void* scope, std::coroutine_handle<> child);

  Reactor* const reactor_;
  StopSource stop_;
  size_t live_ = 0;
  bool closed_ = false;
  std::vector<std::coroutine_handle<>> finished_;
  Event idle_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_SCOPE_H_
