#include "common/redis/client.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/base/status.h"
#include "common/redis/locator.h"

namespace headrace::redis {
namespace {

absl::Status CheckOptions(const ClientOptions& options) {
  if (options.connect_timeout <= absl::ZeroDuration() ||
      options.command_timeout <= absl::ZeroDuration() || options.max_pending < 2) {
    return absl::InvalidArgumentError(
        "the timeouts of Redis must be positive and its queue longer than 1");
  }
  for (const char c : options.client_name) {
    if (c <= ' ' || c > '~') {
      return absl::InvalidArgumentError("the client's name at Redis must be printable, no spaces");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Make(Reactor* reactor, Url url,
                                                     ClientOptions options) {
  HR_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<Secret> password = ReadSecret(url.password, "REDIS_PASSWORD");
  if (!password.ok()) return Annotate(password.status(), "password of Redis");
  if (options.seed == 0) options.seed = RandomSeed();
  std::unique_ptr<Client> client(new Client(reactor, std::move(url), std::move(options)));
  HR_RETURN_IF_ERROR(client->MakeLink(*std::move(password)));
  return client;
}

Client::Client(Reactor* reactor, Url url, ClientOptions options)
    : reactor_(reactor),
      url_(std::move(url)),
      url_text_(url_.ToString()),
      options_(std::move(options)),
      random_(options_.seed),
      scope_(reactor, StopToken()) {}

Client::~Client() = default;

absl::Status Client::MakeLink(Secret password) {
  LinkOptions link;
  link.login.user = url_.user;
  link.login.password = std::move(password);
  link.login.db = url_.db;
  link.login.client_name = options_.client_name;
  link.connection.connect_timeout = options_.connect_timeout;
  link.connection.command_timeout = options_.command_timeout;
  link.connection.max_pending = options_.max_pending;
  link.backoff = options_.backoff;
  link.max_waiting = options_.max_pending;
  if (url_.mode != Url::Mode::kSingle) return absl::UnimplementedError("not yet");
  HR_ASSIGN_OR_RETURN(
      Place place, MakePlace(reactor_, url_, url_.hosts.empty() ? HostPort() : url_.hosts.front(),
                             url_.unix_path));
  link_ = std::make_shared<Link>(reactor_, std::make_unique<FixedLocator>(std::move(place)),
                                 std::move(link), &random_, &traffic_);
  return absl::OkStatus();
}

void Client::Start() { scope_.Spawn(Link::Run(link_, scope_.token())); }

Task<void> Client::Stop() {
  scope_.RequestStop({StopCode::kShutdown, "the Redis client is stopped"});
  co_await scope_.Join();
}

Task<absl::Status> Client::WaitConnected(MonoTime deadline, StopToken stop) {
  DeadlineSource until(reactor_, deadline, stop);
  co_await link_->WaitDecided(until.token());
  if (link_->up()) co_return absl::OkStatus();
  if (stop.stopped()) co_return absl::CancelledError("stopped while connecting to Redis");
  const std::string text =
      absl::StrCat("Redis ", url_text_, ": ",
                   link_->last_error().empty() ? "no connection yet" : link_->last_error());
  if (link_->refused()) co_return absl::FailedPreconditionError(text);
  co_return absl::UnavailableError(text);
}

Task<Outcome> Client::Run(std::vector<std::string> argv, CallOptions options) {
  ++calls_;
  std::string wire;
  AppendCommand(argv, &wire);
  Outcome outcome = co_await Execute(&wire, options);
  co_return outcome;
}

Task<Outcome> Client::Eval(const Script* script, std::vector<std::string> keys,
                           std::vector<std::string> args, CallOptions options) {
  ++calls_;
  std::vector<std::string> argv = {"EVALSHA", script->sha(), absl::StrCat(keys.size())};
  argv.insert(argv.end(), keys.begin(), keys.end());
  argv.insert(argv.end(), std::make_move_iterator(args.begin()),
              std::make_move_iterator(args.end()));
  std::string wire;
  AppendCommand(argv, &wire);
  Outcome outcome = co_await Execute(&wire, options);
  if (outcome.error != Error::kNoScript) co_return outcome;
  // A restart, a promotion or SCRIPT FLUSH emptied the cache. EVAL fills it.
  ++script_loads_;
  argv[0] = "EVAL";
  argv[1] = script->text();
  wire.clear();
  AppendCommand(argv, &wire);
  outcome = co_await Execute(&wire, options);
  co_return outcome;
}

Task<Outcome> Client::Execute(const std::string* wire, CallOptions options) {
  bool may_have_run = false;  // of the tries so far
  while (true) {
    uint64_t generation = 0;
    Outcome outcome = co_await Link::Call(link_, wire, /*asking=*/false, options.deadline,
                                          options.stop, &generation);
    if (outcome.ok()) co_return outcome;
    may_have_run = outcome.may_have_run = outcome.may_have_run || may_have_run;
    if (outcome.error == Error::kLost && options.idempotent) continue;
    if (!IsWorthRediscovery(outcome.error)) co_return outcome;
    link_->Drop(generation, outcome.text);
    // The link's back-off holds the next try back. At the deadline the server's own word tells more
    // than "no connection".
    DeadlineSource until(reactor_, options.deadline, options.stop);
    const bool decided = co_await link_->WaitDecided(until.token());
    if (!decided) co_return outcome;
  }
}

Health Client::health() const {
  const MonoTime now = reactor_->Now();
  Health health;
  health.connected = link_->up();
  health.since = now - link_->since();
  health.place = link_->place();
  health.last_error = link_->last_error();
  if (!health.last_error.empty()) health.error_age = now - link_->last_error_at();
  health.pending = link_->pending();
  health.calls = calls_;
  health.round_trips = traffic_.commands;
  health.writes = traffic_.writes;
  health.connects = traffic_.connects;
  health.timeouts = traffic_.timeouts;
  health.lost = traffic_.lost;
  health.script_loads = script_loads_;
  health.redirects = redirects_;
  return health;
}

}  // namespace headrace::redis
