#include "common/redis/connection.h"

#include <sys/epoll.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace headrace::redis {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
// Reads in a row before others get their turn. Chosen.
constexpr int kReadsPerTurn = 16;

std::string Wire(const std::vector<std::string>& argv) {
  std::string wire;
  AppendCommand(argv, &wire);
  return wire;
}

// The outcome of a step of the login.
absl::Status StepStatus(const Outcome& outcome) {
  return absl::Status(outcome.status().code(), outcome.text);
}

// What the reply to ROLE says against this server.
absl::Status CheckRole(const Outcome& role) {
  if (!role.ok()) {
    // Rights often leave ROLE out, and proxies do not know it: writes will tell.
    const bool unknown = role.error == Error::kServer || absl::StrContains(role.text, "NOPERM");
    return unknown ? absl::OkStatus() : StepStatus(role);
  }
  const std::string& name = role.reply.At(0).text;
  if (name == "master") return absl::OkStatus();
  if (name == "sentinel") {
    return absl::FailedPreconditionError(
        "this is a Sentinel: write redis+sentinel://host/master-name");
  }
  return absl::UnavailableError(
      absl::StrCat("a replica of ", absl::CHexEscape(role.reply.At(1).text), ":",
                   role.reply.At(2).AsInteger().value_or(0), "; the quota is kept on the master"));
}

}  // namespace

Task<absl::StatusOr<std::shared_ptr<Connection>>> Connection::Open(
    Reactor* reactor, std::shared_ptr<net::Connector> connector, Login login,
    ConnectionOptions options, Traffic* traffic, StopToken stop) {
  const MonoTime deadline = reactor->Now() + options.connect_timeout;
  absl::StatusOr<net::Transport> transport =
      co_await connector->Connect(options.connect_timeout, stop);
  if (!transport.ok()) co_return transport.status();
  std::shared_ptr<Connection> connection(
      new Connection(reactor, std::move(connector), *std::move(transport), options, traffic));
  const absl::Status watched =
      reactor->Watch(connection->transport_.fd(), EPOLLIN, connection.get());
  if (!watched.ok()) co_return watched;
  connection->watched_ = true;
  const absl::Status logged_in = co_await connection->LogIn(std::move(login), deadline, stop);
  if (!logged_in.ok()) {
    connection->Close("the login failed");
    co_return logged_in;
  }
  ++traffic->connects;
  co_return connection;
}

Connection::Connection(Reactor* reactor, std::shared_ptr<net::Connector> connector,
                       net::Transport transport, ConnectionOptions options, Traffic* traffic)
    : reactor_(reactor),
      connector_(std::move(connector)),
      transport_(std::move(transport)),
      options_(options),
      traffic_(traffic),
      last_heard_(reactor->Now()),
      ended_(reactor) {}

Connection::~Connection() { Close(""); }

Task<absl::Status> Connection::LogIn(Login login, MonoTime deadline, StopToken stop) {
  struct Step {
    std::vector<std::string> argv;
    bool may_fail = false;  // unless the server wants a password
    bool is_role = false;
  };
  std::vector<Step> steps;
  // A user without a password may still be one that the server wants to be named.
  if (!login.password.empty() || !login.user.empty()) {
    Step auth{.argv = {"AUTH"}};
    if (!login.user.empty()) auth.argv.push_back(login.user);
    auth.argv.push_back(login.password.Reveal());
    steps.push_back(std::move(auth));
  }
  if (!login.client_name.empty()) {
    steps.push_back({.argv = {"CLIENT", "SETNAME", login.client_name}, .may_fail = true});
  }
  if (login.db != 0) steps.push_back({.argv = {"SELECT", absl::StrCat(login.db)}});
  if (login.must_be_master) {
    steps.push_back({.argv = {"ROLE"}, .is_role = true});
  } else {
    steps.push_back({.argv = {"PING"}, .may_fail = true});
  }

  // All in one round trip; the first failure is the one that counts.
  std::deque<Slot> slots;
  std::vector<uint64_t> numbers;
  for (const Step& step : steps) {
    numbers.push_back(Append(Wire(step.argv), &slots.emplace_back(reactor_)));
  }
  DeadlineSource until(reactor_, deadline, stop);
  absl::Status result;
  for (size_t i = 0; i < steps.size() && result.ok(); ++i) {
    const bool done = co_await slots[i].done.Wait(until.token());
    const Outcome& outcome = slots[i].outcome;
    if (!done) {
      result = stop.stopped() ? absl::CancelledError("stopped while logging in")
                              : absl::DeadlineExceededError("the server does not answer the login");
    } else if (steps[i].is_role) {
      result = CheckRole(outcome);
    } else if (!outcome.ok() && !(steps[i].may_fail && outcome.error == Error::kServer) &&
               !(steps[i].may_fail && absl::StrContains(outcome.text, "NOPERM"))) {
      result = StepStatus(outcome);
    }
  }
  for (const uint64_t number : numbers) Abandon(number);
  logged_in_ = result.ok();
  co_return result;
}

Task<Outcome> Connection::Call(std::shared_ptr<Connection> self, const std::string* wire,
                               bool asking, MonoTime deadline, StopToken stop) {
  if (stop.stopped()) co_return Failed(Error::kStopped, "stopped");
  if (!self->usable()) co_return Failed(Error::kUnreachable, self->end_text_);
  if (self->pending_.size() + 2 > self->options_.max_pending) {
    co_return Failed(Error::kOverloaded,
                     absl::StrCat(self->pending_.size(), " commands wait for their replies"));
  }
  if (self->out_.size() - self->out_begin_ + wire->size() > self->options_.max_unsent_bytes) {
    co_return Failed(Error::kOverloaded, "too many bytes wait to be sent");
  }
  if (asking) self->Append(Wire({"ASKING"}), nullptr);
  ++self->traffic_->commands;
  Slot slot(self->reactor_);
  const uint64_t number = self->Append(*wire, &slot);
  DeadlineSource until(self->reactor_, deadline, stop);
  const bool done = co_await slot.done.Wait(until.token());
  if (done) co_return std::move(slot.outcome);
  self->Abandon(number);
  // It stands in the order of commands and may still run, also when it is not on the wire yet.
  if (stop.stopped()) co_return Failed(Error::kStopped, "stopped", /*may_have_run=*/true);
  co_return Failed(Error::kDeadline, "no reply before the caller's deadline",
                   /*may_have_run=*/true);
}

void Connection::Send(const std::vector<std::string>& argv) {
  if (!open_) return;
  AppendCommand(argv, &out_);
  reactor_->RequestEndOfTurn(this);
}

uint64_t Connection::Append(absl::string_view wire, Slot* slot) {
  const uint64_t number = first_number_ + pending_.size();
  pending_.push_back({slot, reactor_->Now(), sent_bytes_ + out_.size() - out_begin_});
  absl::StrAppend(&out_, wire);
  // The login has a deadline of its own.
  if (logged_in_ && !timer_.armed()) {
    reactor_->Arm(
        &timer_, pending_.front().since + options_.command_timeout,
        [](void* self) { static_cast<Connection*>(self)->OnTimer(); }, this);
  }
  reactor_->RequestEndOfTurn(this);
  return number;
}

void Connection::Abandon(uint64_t number) {
  if (number < first_number_ || number - first_number_ >= pending_.size()) return;
  pending_[number - first_number_].slot = nullptr;
}

void Connection::OnFdReady(uint32_t events) {
  if ((events & ~uint32_t{EPOLLOUT}) != 0) Read();
  if (open_ && (events & EPOLLOUT) != 0) Flush();
}

void Connection::OnEndOfTurn() {
  if (!open_) return;
  if (std::exchange(read_again_, false)) Read();
  if (open_) Flush();
}

void Connection::OnTimer() {
  // After a pause of our own process the reply may be here already.
  Read();
  if (!open_ || pending_.empty()) return;
  const MonoTime due = pending_.front().since + options_.command_timeout;
  if (reactor_->Now() >= due) {
    ++traffic_->timeouts;
    return Close(absl::StrCat("the server did not answer within ",
                              headrace::FormatDuration(options_.command_timeout)));
  }
  reactor_->Arm(&timer_, due, [](void* self) { static_cast<Connection*>(self)->OnTimer(); }, this);
}

void Connection::Read() {
  char buffer[kReadBytes];
  for (int i = 0; i < kReadsPerTurn; ++i) {
    size_t count = 0;
    switch (transport_.Read(buffer, sizeof(buffer), &count)) {
      case net::Transport::Io::kOk:
        break;
      case net::Transport::Io::kWouldBlock:
        return;
      case net::Transport::Io::kEnd:
        return Close("the server closed the connection");
      case net::Transport::Io::kError:
        return Close(transport_.error());
    }
    last_heard_ = reactor_->Now();
    const absl::Status fed = reader_.Feed(absl::string_view(buffer, count));
    if (!fed.ok()) return Close(fed.message());
    if (!TakeReplies()) return;
  }
  // Bytes inside the TLS layer wake nobody.
  read_again_ = true;
  reactor_->RequestEndOfTurn(this);
}

bool Connection::TakeReplies() {
  while (true) {
    absl::StatusOr<std::optional<Reply>> reply = reader_.Next();
    if (!reply.ok()) {
      Close(reply.status().message());
      return false;
    }
    if (!reply->has_value()) return true;
    if (!TakeReply(**std::move(reply))) return false;
  }
}

bool Connection::TakeReply(Reply reply) {
  if (on_push_) {
    on_push_(std::move(reply));
    return open_;
  }
  if (pending_.empty()) {
    // Servers refuse a connection by an error that nobody asked for.
    Close(reply.is_error() ? absl::CHexEscape(reply.text)
                           : absl::StrCat("a reply to nothing: ", reply.ToString()));
    return false;
  }
  const Pending pending = pending_.front();
  pending_.pop_front();
  ++first_number_;
  if (pending.slot != nullptr) {
    pending.slot->outcome = OutcomeOf(std::move(reply));
    pending.slot->done.Set();
  }
  if (pending_.empty() && ended_.is_set()) {
    Close("");  // retired, and the last reply is here
    return false;
  }
  return true;
}

void Connection::Flush() {
  while (out_begin_ < out_.size()) {
    size_t count = 0;
    const net::Transport::Io io =
        transport_.Write(out_.data() + out_begin_, out_.size() - out_begin_, &count);
    if (io == net::Transport::Io::kWouldBlock) {
      // Do not carry what is sent along for ever.
      out_.erase(0, std::exchange(out_begin_, 0));
      return WatchOutput(true);
    }
    if (io != net::Transport::Io::kOk) {
      const std::string error = transport_.error();
      // A server that closes says why first.
      Read();
      return Close(error);
    }
    ++traffic_->writes;
    out_begin_ += count;
    sent_bytes_ += count;
  }
  out_.clear();
  out_begin_ = 0;
  WatchOutput(false);
}

void Connection::WatchOutput(bool on) {
  if (output_watched_ == on) return;
  output_watched_ = on;
  reactor_->Rewatch(transport_.fd(), on ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
}

void Connection::Retire(absl::string_view why) {
  End(why);
  if (pending_.empty()) Close("");
}

void Connection::Close(absl::string_view why) {
  if (!open_) return;
  End(why);
  open_ = false;
  reactor_->Cancel(&timer_);
  if (watched_) reactor_->Unwatch(transport_.fd());
  transport_.Close();
  for (const Pending& pending : pending_) {
    // A byte that was sent may be the whole command, for all we know about the rest of the buffer.
    const bool sent = pending.first_byte < sent_bytes_;
    if (sent) ++traffic_->lost;
    if (pending.slot == nullptr) continue;
    pending.slot->outcome = Failed(sent ? Error::kLost : Error::kUnreachable, end_text_, sent);
    pending.slot->done.Set();
  }
  pending_.clear();
}

void Connection::End(absl::string_view why) {
  if (ended_.is_set()) return;
  end_text_ = std::string(why);
  ended_.Set();
}

}  // namespace headrace::redis
