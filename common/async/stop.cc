#include "common/async/stop.h"

#include <utility>

#include "common/base/log.h"

namespace headrace {

absl::string_view StopCodeName(StopCode code) {
  switch (code) {
    case StopCode::kNone:
      return "none";
    case StopCode::kDeadline:
      return "deadline";
    case StopCode::kShutdown:
      return "shutdown";
    case StopCode::kDrain:
      return "drain";
    case StopCode::kPolicy:
      return "policy";
    case StopCode::kLeaseLost:
      return "lease_lost";
    case StopCode::kAlreadyDone:
      return "already_done";
    case StopCode::kAccountStop:
      return "account_stop";
    case StopCode::kConfigStop:
      return "config_stop";
    case StopCode::kPeerLost:
      return "peer_lost";
    case StopCode::kTimeout:
      return "timeout";
    case StopCode::kUser:
      return "user";
    case StopCode::kOwnerDone:
      return "owner_done";
  }
  return "unknown";
}

void StopCallback::Arm(StopToken token, Function function, void* context) {
  Unlink();
  function_ = function;
  context_ = context;
  if (token.source_ == nullptr) return;
  if (token.source_->stopped()) {
    function(context);
  } else {
    token.source_->callbacks_.PushBack(this);
  }
}

StopSource::StopSource(StopToken parent) : parent_(parent.source_) {
  parent_callback_.Arm(
      parent,
      [](void* self) {
        auto* source = static_cast<StopSource*>(self);
        source->RequestStop(source->parent_->reason());
      },
      this);
}

StopSource::~StopSource() {
  HR_CHECK(callbacks_.empty()) << "a stop source died before those who wait on it";
}

void StopSource::RequestStop(StopReason reason) {
  HR_CHECK(reason.code != StopCode::kNone);
  if (stopped()) return;
  reason_ = std::move(reason);
  // A callback may disarm others, so the list is taken apart from the front.
  while (StopCallback* callback = callbacks_.PopFront()) callback->function_(callback->context_);
}

StopToken StopSource::token() { return StopToken(this); }

const StopReason& StopToken::reason() const {
  static const StopReason none;
  return source_ == nullptr ? none : source_->reason();
}

}  // namespace headrace
