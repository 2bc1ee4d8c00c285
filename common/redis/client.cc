#include "common/redis/client.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/base/status.h"
#include "common/redis/locator.h"
#include "common/redis/sentinel.h"

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

// A redirection that leads to another one, and so on, is a loop of a broken cluster.
constexpr int kMaxRedirects = 16;
// How long one try waits for a node of a cluster that is not connected, before it asks whether
// another node has taken its slots. Chosen.
constexpr absl::Duration kNodePatience = absl::Milliseconds(200);

// Answers with any node of a cluster, each time another one.
class ClusterLocator final : public Locator {
 public:
  ClusterLocator(Reactor* reactor, Url url, Cluster* cluster)
      : reactor_(reactor), url_(std::move(url)), cluster_(cluster) {}
  Task<absl::StatusOr<Place>> Locate(StopToken stop) override {
    const std::vector<HostPort> nodes = cluster_->AskableNodes();
    co_return MakePlace(reactor_, url_, nodes.front());
  }

 private:
  Reactor* const reactor_;
  const Url url_;
  Cluster* const cluster_;
};

// Nobody is known to own `slot`.
Outcome NoOwner(const Cluster& cluster, uint16_t slot) {
  const std::string text = cluster.error().ok()
                               ? absl::StrCat("no node of the cluster owns slot ", slot)
                               : std::string(cluster.error().message());
  return Failed(cluster.refused() ? Error::kConfiguration : Error::kUnreachable, text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Make(Reactor* reactor, Url url,
                                                     ClientOptions options) {
  HR_RETURN_IF_ERROR(CheckOptions(options));
  if (options.seed == 0) options.seed = RandomSeed();
  std::unique_ptr<Client> client(new Client(reactor, std::move(url), std::move(options)));
  HR_RETURN_IF_ERROR(client->Prepare());
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

absl::Status Client::Prepare() {
  absl::StatusOr<Secret> password = ReadSecret(url_.password, "REDIS_PASSWORD");
  if (!password.ok()) return Annotate(password.status(), "password of Redis");
  link_options_.login.user = url_.user;
  link_options_.login.password = *std::move(password);
  link_options_.login.db = url_.db;
  link_options_.login.client_name = options_.client_name;
  link_options_.login.must_be_master = url_.mode != Url::Mode::kCluster;
  link_options_.connection.connect_timeout = options_.connect_timeout;
  link_options_.connection.command_timeout = options_.command_timeout;
  link_options_.connection.max_pending = options_.max_pending;
  link_options_.backoff = options_.backoff;
  link_options_.max_waiting = options_.max_pending;
  if (url_.mode == Url::Mode::kSentinel) {
    absl::StatusOr<Secret> secret = ReadSecret(url_.sentinel_password, "REDIS_SENTINEL_PASSWORD");
    if (!secret.ok()) return Annotate(secret.status(), "password of the Sentinels");
    sentinel_login_.user = url_.sentinel_user;
    sentinel_login_.password = *std::move(secret);
    sentinel_login_.client_name = options_.client_name;
    sentinel_login_.must_be_master = false;
  }
  if (url_.mode == Url::Mode::kCluster) {
    // Certificates are read again for every node; here for their errors.
    HR_RETURN_IF_ERROR(MakePlace(reactor_, url_, url_.hosts.front()).status());
    cluster_ =
        std::make_unique<Cluster>(reactor_, url_, link_options_, &random_, &traffic_, &scope_);
    return absl::OkStatus();
  }
  HR_ASSIGN_OR_RETURN(std::unique_ptr<Locator> locator, MakeLocator());
  link_ = std::make_shared<Link>(reactor_, std::move(locator), link_options_, &random_, &traffic_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Locator>> Client::MakeLocator() {
  switch (url_.mode) {
    case Url::Mode::kSingle:
      break;
    case Url::Mode::kSentinel:
      HR_RETURN_IF_ERROR(MakePlace(reactor_, url_, url_.hosts.front()).status());
      return std::make_unique<SentinelLocator>(reactor_, url_, sentinel_login_,
                                               link_options_.connection);
    case Url::Mode::kCluster:
      return std::make_unique<ClusterLocator>(reactor_, url_, cluster_.get());
  }
  HR_ASSIGN_OR_RETURN(
      Place place, MakePlace(reactor_, url_, url_.hosts.empty() ? HostPort() : url_.hosts.front(),
                             url_.unix_path));
  return std::make_unique<FixedLocator>(std::move(place));
}

void Client::Start() {
  scope_.Spawn(cluster_ != nullptr ? cluster_->Run(scope_.token())
                                   : Link::Run(link_, scope_.token()));
}

Task<void> Client::Stop() {
  scope_.RequestStop({StopCode::kShutdown, "the Redis client is stopped"});
  co_await scope_.Join();
}

Task<absl::Status> Client::WaitConnected(MonoTime deadline, StopToken stop) {
  DeadlineSource until(reactor_, deadline, stop);
  if (cluster_ != nullptr) {
    co_await cluster_->WaitKnown(until.token());
    for (const std::shared_ptr<Link>& link : cluster_->Owners()) {
      co_await link->WaitDecided(until.token());
    }
  } else {
    co_await link_->WaitDecided(until.token());
  }
  Health now;
  CountLinks(&now);
  if (now.connected) co_return absl::OkStatus();
  if (stop.stopped()) co_return absl::CancelledError("stopped while connecting to Redis");
  const std::string text = absl::StrCat(
      "Redis ", url_text_, ": ", now.last_error.empty() ? "no connection yet" : now.last_error);
  if (now.refused) co_return absl::FailedPreconditionError(text);
  co_return absl::UnavailableError(text);
}

Task<Outcome> Client::Run(std::vector<std::string> argv, CallOptions options) {
  ++calls_;
  std::string wire;
  AppendCommand(argv, &wire);
  const uint16_t slot = argv.size() > 1 ? HashSlot(argv[1]) : 0;
  Outcome outcome = co_await Execute(&wire, slot, options);
  co_return outcome;
}

Task<Outcome> Client::Eval(const Script* script, std::vector<std::string> keys,
                           std::vector<std::string> args, CallOptions options) {
  ++calls_;
  const uint16_t slot = keys.empty() ? 0 : HashSlot(keys.front());
  std::vector<std::string> argv = {"EVALSHA", script->sha(), absl::StrCat(keys.size())};
  argv.insert(argv.end(), keys.begin(), keys.end());
  argv.insert(argv.end(), std::make_move_iterator(args.begin()),
              std::make_move_iterator(args.end()));
  std::string wire;
  AppendCommand(argv, &wire);
  Outcome outcome = co_await Execute(&wire, slot, options);
  if (outcome.error != Error::kNoScript) co_return outcome;
  // A restart, a promotion or SCRIPT FLUSH emptied the cache. EVAL fills it.
  ++script_loads_;
  argv[0] = "EVAL";
  argv[1] = script->text();
  wire.clear();
  AppendCommand(argv, &wire);
  outcome = co_await Execute(&wire, slot, options);
  co_return outcome;
}

std::shared_ptr<Subscription> Client::Subscribe(std::vector<std::string> channels) {
  absl::StatusOr<std::unique_ptr<Locator>> locator = MakeLocator();
  // Prepare() has made one from the same URL.
  HR_CHECK(locator.ok()) << locator.status();
  auto subscription = std::make_shared<Subscription>(reactor_, *std::move(locator), link_options_,
                                                     std::move(channels), &random_);
  if (!scope_.Spawn(Subscription::Run(subscription, scope_.token()))) subscription->Close();
  return subscription;
}

Task<Outcome> Client::Execute(const std::string* wire, uint16_t slot, CallOptions options) {
  Outcome outcome = cluster_ != nullptr ? co_await ExecuteInCluster(wire, slot, options)
                                        : co_await ExecuteOnLink(wire, options);
  co_return outcome;
}

Task<Outcome> Client::ExecuteOnLink(const std::string* wire, CallOptions options) {
  bool may_have_run = false;  // of the tries so far
  while (true) {
    uint64_t generation = 0;
    Outcome outcome = co_await Link::Call(link_, wire, /*asking=*/false, options.deadline,
                                          options.deadline, options.stop, &generation);
    if (outcome.ok()) co_return outcome;
    may_have_run = outcome.may_have_run = outcome.may_have_run || may_have_run;
    if (outcome.error == Error::kLost && options.idempotent) continue;
    if (outcome.error == Error::kMoved || outcome.error == Error::kAsk) {
      outcome.error = Error::kConfiguration;
      absl::StrAppend(&outcome.text, " (the server is a node of a cluster: redis+cluster://...)");
    }
    if (!IsWorthRediscovery(outcome.error)) co_return outcome;
    link_->Drop(generation, outcome.text);
    // The link's back-off holds the next try back. At the deadline the server's own word tells more
    // than "no connection".
    DeadlineSource until(reactor_, options.deadline, options.stop);
    const bool decided = co_await link_->WaitDecided(until.token());
    if (!decided) co_return outcome;
  }
}

Task<Outcome> Client::ExecuteInCluster(const std::string* wire, uint16_t slot,
                                       CallOptions options) {
  if (!cluster_->has_slots()) {
    DeadlineSource until(reactor_, options.deadline, options.stop);
    co_await cluster_->WaitKnown(until.token());
  }
  bool may_have_run = false;
  int redirects = 0;
  std::shared_ptr<Link> asking;  // where an ASK sent us, for one try
  while (true) {
    std::shared_ptr<Link> link = asking != nullptr ? asking : cluster_->LinkFor(slot);
    const bool is_asking = std::exchange(asking, nullptr) != nullptr;
    Outcome outcome;
    if (link == nullptr) {
      outcome = NoOwner(*cluster_, slot);
    } else {
      uint64_t generation = 0;
      outcome = co_await Link::Call(link, wire, is_asking, reactor_->Now() + kNodePatience,
                                    options.deadline, options.stop, &generation);
    }
    if (outcome.ok()) co_return outcome;
    may_have_run = outcome.may_have_run = outcome.may_have_run || may_have_run;
    switch (outcome.error) {
      case Error::kMoved:
      case Error::kAsk: {
        ++redirects_;
        const std::optional<Redirect> redirect = ParseRedirect(outcome.text);
        if (!redirect.has_value() || ++redirects > kMaxRedirects) co_return outcome;
        const HostPort target = cluster_->Target(*redirect, link->place());
        if (redirect->ask) {
          asking = cluster_->LinkTo(target);
        } else {
          cluster_->SetOwner(redirect->slot, target);
          cluster_->Refresh();
        }
        continue;
      }
      case Error::kLost:
        cluster_->Refresh();
        if (!options.idempotent) co_return outcome;
        break;
      case Error::kUnreachable:
      case Error::kNotMaster:
      case Error::kNotReady:
        cluster_->Refresh();
        break;
      case Error::kTryAgain:
        break;
      default:
        co_return outcome;
    }
    // The cluster has to change before another try can do better.
    const absl::Duration pause = options_.backoff.first_delay +
                                 random_.Between(absl::ZeroDuration(), options_.backoff.jitter);
    const MonoTime again = std::min(reactor_->Now() + pause, options.deadline);
    co_await Sleep(reactor_, again, options.stop);
    if (options.stop.stopped() || scope_.stopped()) {
      co_return Failed(Error::kStopped, "stopped", may_have_run);
    }
    if (reactor_->Now() >= options.deadline) co_return outcome;
  }
}

void Client::CountLinks(Health* health) const {
  const MonoTime now = reactor_->Now();
  std::vector<std::shared_ptr<Link>> links;
  if (link_ != nullptr) links.push_back(link_);
  MonoTime last_error_at;
  MonoTime since;
  if (cluster_ != nullptr) {
    links = cluster_->Owners();
    health->last_error = std::string(cluster_->error().message());
    health->refused = cluster_->refused();
    last_error_at = cluster_->error_at();
  }
  health->connected = !links.empty();
  for (const std::shared_ptr<Link>& link : links) {
    health->connected = health->connected && link->up();
    health->refused = health->refused || link->refused();
    health->pending += link->pending();
    since = std::max(since, link->since());
    absl::StrAppend(&health->place, health->place.empty() ? "" : ",", link->place());
    if (!link->last_error().empty() && link->last_error_at() >= last_error_at) {
      health->last_error = link->last_error();
      last_error_at = link->last_error_at();
    }
  }
  if (!links.empty()) health->since = now - since;
  if (!health->last_error.empty()) health->error_age = now - last_error_at;
}

Health Client::health() const {
  Health health;
  CountLinks(&health);
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
