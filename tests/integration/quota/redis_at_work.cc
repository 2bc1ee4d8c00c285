#include "tests/integration/quota/redis_at_work.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/wait.h"

namespace headrace::quota {
namespace {

// Half of a round trip within a data centre.
constexpr absl::Duration kOneWay = absl::Microseconds(250);

int64_t accounts = 0;
int64_t shared_account = 0;
int64_t shared_workers = 0;
int64_t round_trips = 0;

std::string Account(int64_t number) { return absl::StrCat("t", number); }

// The server of a store in virtual time: a round trip takes time there, and blocks here.
class DirectServer final : public PoolServer {
 public:
  explicit DirectServer(Reactor* reactor) : reactor_(reactor) {}

  Task<redis::Outcome> Eval(const redis::Script* script, std::vector<std::string> keys,
                            std::vector<std::string> args, redis::CallOptions options) override {
    ++round_trips;
    co_await Sleep(reactor_, kOneWay, StopToken());
    // The time of the server is that of the arrival.
    if (!args[0].empty()) args[0] = absl::StrCat(reactor_->Now().nanos() / 1000);
    redis::Outcome outcome = redis::OutcomeOf(TheRedis()->Eval(*script, keys, args));
    co_await Sleep(reactor_, kOneWay, StopToken());
    co_return outcome;
  }
  int64_t connects() const override { return 1; }
  std::string place() const override { return "test"; }
  std::shared_ptr<redis::Subscription> Subscribe(std::vector<std::string> channels) override {
    return nullptr;
  }
  Task<void> Stop() override { co_return; }

 private:
  Reactor* const reactor_;
};

}  // namespace

BlockingRedis* TheRedis() {
  static redis::RedisServer server({"--save", ""});
  static BlockingRedis redis(server.port());
  return &redis;
}

std::string NewAccount() { return Account(++accounts); }

std::unique_ptr<PoolStore> MakeScriptStore(Reactor* reactor, const std::vector<PoolSpec>& specs) {
  return std::make_unique<ScriptStore>(reactor, TheRedis(), specs.at(0), NewAccount());
}

void ShareNextAccount() {
  shared_account = ++accounts;
  shared_workers = 0;
  round_trips = 0;
}

std::unique_ptr<PoolStore> MakeRedisStore(Reactor* reactor, const std::vector<PoolSpec>& specs) {
  RedisStoreOptions options;
  options.worker = absl::StrCat("w", ++shared_workers);
  options.seed = static_cast<uint64_t>(shared_workers);
  options.test_clock = true;
  return std::make_unique<RedisPoolStore>(
      reactor, std::make_unique<DirectServer>(reactor),
      std::vector<SharedPool>{{specs.at(0), Account(shared_account)}}, std::move(options));
}

int64_t RoundTrips() { return round_trips; }

PoolSnapshot SharedSnapshot(Reactor* reactor, const PoolSpec& spec) {
  return ScriptStore(reactor, TheRedis(), spec, Account(shared_account), "looker").Snapshot("p");
}

}  // namespace headrace::quota
