#include "common/redis/subscription.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::redis {

Subscription::Subscription(Reactor* reactor, std::unique_ptr<Locator> locator, LinkOptions options,
                           std::vector<std::string> channels, Random* random)
    : reactor_(reactor),
      locator_(std::move(locator)),
      options_(std::move(options)),
      channels_(std::move(channels)),
      random_(random),
      hints_(reactor, kMaxHints) {}

Task<void> Subscription::Run(std::shared_ptr<Subscription> self, StopToken stop) {
  // Stops with the scope or with the reader.
  StopCallback stopped;
  stopped.Arm(
      stop, [](void* subscription) { static_cast<Subscription*>(subscription)->Cancel(); },
      self.get());
  const StopToken token = self->cancel_.token();
  int failures = 0;
  while (!token.stopped()) {
    const absl::Status ended = co_await self->Listen(token);
    if (token.stopped()) break;
    if (self->live_) failures = 0;
    self->live_ = false;
    if (ended.message() != self->last_error_) {
      HR_LOG(kWarning) << "Redis subscription: " << ended.message();
    }
    self->last_error_ = std::string(ended.message());
    const absl::Duration pause =
        absl::IsFailedPrecondition(ended)
            ? self->options_.backoff.max_delay
            : BackoffDelay(self->options_.backoff, failures++, std::nullopt, self->random_);
    co_await Sleep(self->reactor_, pause, token);
  }
  self->live_ = false;
  self->hints_.Close();
}

Task<absl::Status> Subscription::Listen(StopToken stop) {
  absl::StatusOr<Place> place = co_await locator_->Locate(stop);
  if (!place.ok()) co_return place.status();
  absl::StatusOr<std::shared_ptr<Connection>> opened = co_await Connection::Open(
      reactor_, std::move(place->connector), options_.login, options_.connection, &traffic_, stop);
  if (!opened.ok()) {
    locator_->Distrust();
    co_return opened.status();
  }
  Connection* const connection = opened->get();
  subscribed_ = 0;
  // The connection ends before this frame does.
  connection->Listen([this, connection](Reply reply) { OnPush(connection, std::move(reply)); });
  std::vector<std::string> argv = {"SUBSCRIBE"};
  argv.insert(argv.end(), channels_.begin(), channels_.end());
  connection->Send(argv);
  while (connection->usable() && !stop.stopped()) {
    DeadlineSource quiet(reactor_, connection->last_heard() + kQuiet, stop);
    co_await connection->WaitEnded(quiet.token());
    if (!connection->usable() || stop.stopped()) break;
    if (reactor_->Now() - connection->last_heard() < kQuiet) continue;
    connection->Send({"PING"});
    DeadlineSource dead(reactor_, connection->last_heard() + 2 * kQuiet, stop);
    co_await connection->WaitEnded(dead.token());
    if (reactor_->Now() - connection->last_heard() >= 2 * kQuiet) connection->Close("silent");
  }
  connection->Close("stopped");
  const Error error = ClassifyErrorReply(connection->end_text());
  if (error == Error::kConfiguration) {
    co_return absl::FailedPreconditionError(connection->end_text());
  }
  co_return absl::UnavailableError(connection->end_text());
}

void Subscription::OnPush(Connection* connection, Reply reply) {
  if (reply.is_error()) return connection->Retire(reply.text);
  const std::string& kind = reply.At(0).text;
  if (kind == "message" && reply.elements.size() == 3) {
    Deliver({std::move(reply.elements[1].text), std::move(reply.elements[2].text)});
  } else if (kind == "subscribe" && ++subscribed_ == channels_.size()) {
    live_ = true;
    Deliver({.missed = true});
  }
}

void Subscription::Deliver(Hint hint) {
  if (!hints_.TrySend(std::move(hint))) dropped_ = true;
}

Task<std::optional<Hint>> Subscription::Next(std::shared_ptr<Subscription> self, StopToken stop) {
  std::optional<Hint> hint = co_await self->hints_.Receive(stop);
  if (hint.has_value() && std::exchange(self->dropped_, false)) hint->missed = true;
  co_return hint;
}

}  // namespace headrace::redis
