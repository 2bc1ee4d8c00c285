#include "common/redis/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::redis {

Link::Link(Reactor* reactor, std::unique_ptr<Locator> locator, LinkOptions options, Random* random,
           Traffic* traffic)
    : reactor_(reactor),
      locator_(std::move(locator)),
      options_(std::move(options)),
      random_(random),
      traffic_(traffic),
      decided_(reactor),
      since_(reactor->Now()) {}

Task<void> Link::Run(std::shared_ptr<Link> self, StopToken stop) {
  Reactor* const reactor = self->reactor_;
  const BackoffOptions& backoff = self->options_.backoff;
  int failures = 0;
  while (true) {
    const absl::Status connected = co_await self->Connect(stop);
    if (stop.stopped()) break;
    absl::Duration pause;
    if (connected.ok()) {
      const std::shared_ptr<Connection> connection = self->connection_;
      const MonoTime up_at = reactor->Now();
      co_await connection->WaitEnded(stop);
      if (stop.stopped()) break;
      if (self->connection_ == connection) self->NoteDown(connection->end_text());
      if (reactor->Now() - up_at >= kStable) failures = 0;
      pause = failures == 0 ? self->random_->Between(absl::ZeroDuration(), backoff.jitter)
                            : BackoffDelay(backoff, failures - 1, std::nullopt, self->random_);
      ++failures;
    } else {
      self->NoteFailure(connected);
      pause = self->refused_ ? backoff.max_delay
                             : BackoffDelay(backoff, failures, std::nullopt, self->random_);
      ++failures;
    }
    co_await Sleep(reactor, pause, stop);
    if (stop.stopped()) break;
  }
  if (self->connection_ != nullptr) self->connection_->Close("stopped");
  self->connection_ = nullptr;
  self->stopped_ = true;
  self->decided_.Set();
}

Task<absl::Status> Link::Connect(StopToken stop) {
  absl::StatusOr<Place> place = co_await locator_->Locate(stop);
  if (!place.ok()) co_return place.status();
  place_ = place->name;
  absl::StatusOr<std::shared_ptr<Connection>> connection = co_await Connection::Open(
      reactor_, place->connector, options_.login, options_.connection, traffic_, stop);
  if (!connection.ok()) {
    locator_->Distrust();
    co_return connection.status();
  }
  connection_ = *std::move(connection);
  NoteUp();
  co_return absl::OkStatus();
}

void Link::NoteUp() {
  ++generation_;
  refused_ = false;
  since_ = reactor_->Now();
  if (!last_error_.empty()) HR_LOG(kInfo) << "Redis at " << place_ << ": connected again";
  decided_.Set();
}

void Link::NoteDown(absl::string_view why) {
  connection_ = nullptr;
  decided_.Reset();
  since_ = reactor_->Now();
  last_error_ = std::string(why);
  last_error_at_ = since_;
  HR_LOG(kWarning) << "Redis at " << place_ << ": " << why;
}

void Link::NoteFailure(const absl::Status& status) {
  // The same trouble again is not news.
  if (status.message() != last_error_) {
    HR_LOG(kWarning) << "Redis: no connection: " << status.message();
  }
  last_error_ = std::string(status.message());
  last_error_at_ = reactor_->Now();
  refused_ = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
  refused_ ? decided_.Set() : decided_.Reset();
}

Task<Outcome> Link::Call(std::shared_ptr<Link> self, const std::string* wire, bool asking,
                         MonoTime wait_until, MonoTime deadline, StopToken stop,
                         uint64_t* generation) {
  while (true) {
    *generation = self->generation_;
    if (self->up()) {
      std::shared_ptr<Connection> connection = self->connection_;
      Outcome outcome =
          co_await Connection::Call(std::move(connection), wire, asking, deadline, stop);
      // It was not sent before the connection broke: the next one will do.
      if (outcome.error != Error::kUnreachable) co_return outcome;
      continue;
    }
    // The connection broke in this turn, and Run() has not been resumed yet.
    if (self->connection_ != nullptr) self->NoteDown(self->connection_->end_text());
    if (self->stopped_) co_return Failed(Error::kStopped, "the Redis client was stopped");
    if (self->refused_) co_return Failed(Error::kConfiguration, self->last_error_);
    if (self->waiting_ >= self->options_.max_waiting) {
      co_return Failed(Error::kOverloaded,
                       absl::StrCat(self->waiting_, " commands wait for a connection"));
    }
    ++self->waiting_;
    DeadlineSource until(self->reactor_, std::min(wait_until, deadline), stop);
    const bool decided = co_await self->decided_.Wait(until.token());
    --self->waiting_;
    if (decided) continue;
    if (stop.stopped()) co_return Failed(Error::kStopped, "stopped");
    co_return Failed(Error::kUnreachable, self->last_error_.empty()
                                              ? "no connection yet"
                                              : absl::StrCat("no connection: ", self->last_error_));
  }
}

void Link::Drop(uint64_t generation, absl::string_view why) {
  if (generation != generation_ || connection_ == nullptr) return;
  const std::shared_ptr<Connection> connection = connection_;
  NoteDown(why);
  connection->Retire(why);
}

}  // namespace headrace::redis
