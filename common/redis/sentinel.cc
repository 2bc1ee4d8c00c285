#include "common/redis/sentinel.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/redis/protocol.h"

namespace headrace::redis {

SentinelLocator::SentinelLocator(Reactor* reactor, Url url, Login login, ConnectionOptions options)
    : reactor_(reactor), url_(std::move(url)), login_(std::move(login)), options_(options) {}

void SentinelLocator::Distrust() { first_ = (first_ + 1) % url_.hosts.size(); }

Task<absl::StatusOr<Place>> SentinelLocator::Locate(StopToken stop) {
  const size_t count = url_.hosts.size();
  const size_t first = first_;
  absl::Status error;
  size_t ignorant = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t index = (first + i) % count;
    const absl::StatusOr<std::optional<HostPort>> master = co_await Ask(index, stop);
    if (stop.stopped()) co_return absl::CancelledError("stopped");
    if (!master.ok()) {
      // What a person must change is the better news.
      if (!absl::IsFailedPrecondition(error)) error = master.status();
      continue;
    }
    if (!master->has_value()) {
      ++ignorant;
      continue;
    }
    first_ = index;
    if (master_ != *master) {
      absl::StatusOr<Place> place = MakePlace(reactor_, url_, **master);
      if (!place.ok()) co_return place.status();
      place_ = *std::move(place);
      master_ = *master;
    }
    co_return place_;
  }
  if (ignorant == count) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("no Sentinel knows a master named ", url_.master));
  }
  if (ignorant > 0) {
    co_return absl::UnavailableError(
        absl::StrCat("no Sentinel that answers knows a master named ", url_.master));
  }
  co_return error;
}

Task<absl::StatusOr<std::optional<HostPort>>> SentinelLocator::Ask(size_t index, StopToken stop) {
  const std::string where = absl::StrCat("Sentinel at ", url_.hosts[index].ToString());
  absl::StatusOr<Place> place = MakePlace(reactor_, url_, url_.hosts[index]);
  if (!place.ok()) co_return place.status();
  absl::StatusOr<std::shared_ptr<Connection>> connection = co_await Connection::Open(
      reactor_, std::move(place->connector), login_, options_, &traffic_, stop);
  if (!connection.ok()) co_return Annotate(connection.status(), where);
  std::string wire;
  AppendCommand({"SENTINEL", "get-master-addr-by-name", url_.master}, &wire);
  const Outcome outcome = co_await Connection::Call(
      *connection, &wire, /*asking=*/false, reactor_->Now() + options_.command_timeout, stop);
  if (outcome.error == Error::kServer) {
    co_return absl::FailedPreconditionError(
        absl::StrCat(url_.hosts[index].ToString(), " is no Sentinel: ", outcome.text));
  }
  if (!outcome.ok()) co_return Annotate(outcome.status(), where);
  if (outcome.reply.is_nil()) co_return std::optional<HostPort>();
  HostPort master;
  master.host = outcome.reply.At(0).text;
  const int64_t port = outcome.reply.At(1).AsInteger().value_or(0);
  if (master.host.empty() || port < 1 || port > 65535) {
    co_return absl::UnavailableError(
        absl::StrCat(where, ": ", outcome.reply.ToString(), " is no address"));
  }
  master.port = static_cast<uint16_t>(port);
  co_return std::optional<HostPort>(std::move(master));
}

}  // namespace headrace::redis
