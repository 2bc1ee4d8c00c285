#include "tests/support/sim_chaos.h"

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace headrace {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;  // bytes

Weather FineWeather() {
  Weather weather;
  weather.latency = {absl::Milliseconds(50), absl::Seconds(2)};
  return weather;
}

Weather BadWeather(Random* random) {
  Weather weather = FineWeather();
  weather.server_error = random->Unit() * 0.3;
  weather.rate_limited = random->Unit() * 0.3;
  weather.lost = random->Unit() * 0.1;
  weather.slow = random->Unit() * 0.05;
  return weather;
}

class ChaosMaker {
 public:
  ChaosMaker(SimCluster* cluster, std::map<SimFault, int64_t>* injected)
      : c_(cluster), injected_(injected), random_(cluster->random()) {
    const bool gentle = IsGentle(c_->options().seed);
    for (int i = 0; i < kNumSimFaults; ++i) {
      const auto fault = static_cast<SimFault>(i);
      const bool harmless = fault == SimFault::kBreakStream || fault == SimFault::kPause ||
                            fault == SimFault::kDrainWorker || fault == SimFault::kJoin ||
                            fault == SimFault::kRestart || fault == SimFault::kClockJump ||
                            fault == SimFault::kFullDisk || fault == SimFault::kWeather;
      // Each world has some kinds of faults, so that some have few and each kind meets each other.
      if ((!gentle || harmless) && random_.Chance(0.6)) enabled_.push_back(fault);
    }
    if (enabled_.empty()) enabled_.push_back(SimFault::kBreakStream);
  }

  Task<void> Run() {
    c_->StartCoordinator();
    const int64_t workers = random_.Chance(0.9) ? random_.Between(2, 5) : random_.Between(6, 20);
    for (int64_t i = 0; i < workers; ++i) Join();
    const MonoTime end = c_->reactor().Now() + absl::Seconds(random_.Between(10, 60));
    while (c_->reactor().Now() < end && !c_->complete()) {
      co_await c_->Wait(random_.Between(absl::Milliseconds(100), absl::Seconds(4)));
      if (c_->complete()) break;
      if (!c_->coordinator_up()) {
        c_->StartCoordinator();
        continue;
      }
      const SimFault fault = enabled_[random_.Below(enabled_.size())];
      ++(*injected_)[fault];
      co_await Inject(fault);
    }
    Peace();
  }

 private:
  void Join() { c_->StartWorker(absl::StrCat("w", next_id_++)); }

  absl::Duration UpTo(absl::Duration longest) {
    return random_.Between(absl::ZeroDuration(), longest);
  }

  SimWorker* Anyone() {
    const std::vector<SimWorker*> running = c_->running_workers();
    return running.empty() ? nullptr : running[random_.Below(running.size())];
  }

  Task<void> Inject(SimFault fault) {
    SimWorker* const worker = Anyone();
    if (worker == nullptr) {
      Join();
      co_return;
    }
    if (fault == SimFault::kRestart) {
      co_await c_->StopCoordinator();
    } else if (fault < SimFault::kCrash) {
      ToWorker(fault, worker);
    } else {
      ToOthers(fault);
    }
  }

  void ToWorker(SimFault fault, SimWorker* worker) {
    const absl::Duration lease = c_->options().lease;
    switch (fault) {
      case SimFault::kBreakStream:
        c_->network().Break(worker->process(), UpTo(absl::Seconds(1)), UpTo(absl::Seconds(1)));
        break;
      case SimFault::kHalfOpen: {
        const absl::Duration late = random_.Between(lease, 8 * lease);
        const bool at_worker = random_.Chance(0.5);
        c_->network().Break(worker->process(), at_worker ? late : absl::ZeroDuration(),
                            at_worker ? absl::ZeroDuration() : late);
        break;
      }
      case SimFault::kPause:
        // Two in a row would be longer than a lease.
        if (c_->reactor().Now() < pause_again_[worker->process()]) break;
        pause_again_[worker->process()] = c_->reactor().Now() + 2 * lease;
        worker->Freeze(UpTo(lease / 2), random_.Chance(0.5));
        break;
      case SimFault::kFreeze:
        worker->Freeze(random_.Between(lease, 4 * lease), false);
        break;
      case SimFault::kFreezeCalls:
        worker->Freeze(random_.Between(lease, 4 * lease), true);
        break;
      case SimFault::kKillWorker:
        worker->Kill(UpTo(absl::Seconds(2)));
        break;
      case SimFault::kTwin:
        c_->StartWorker(worker->id());
        break;
      case SimFault::kDrainWorker:
        worker->Drain();
        if (random_.Chance(0.7)) Join();
        break;
      default:
        Join();
        break;
    }
  }

  void ToOthers(SimFault fault) {
    using Survivors = FaultDisk::Survivors;
    switch (fault) {
      case SimFault::kCrash:
        c_->CrashCoordinator(random_.Chance(0.4)   ? Survivors::kRandom
                             : random_.Chance(0.5) ? Survivors::kNone
                                                   : Survivors::kAll);
        break;
      case SimFault::kSyncError:
        c_->disk().FailNth(FaultDisk::Call::kDataSync, random_.Between(1, 5),
                           ErrnoStatus(EIO, "fault disk"));
        break;
      case SimFault::kFullDisk:
        c_->disk().SetFreeBytes(full_ ? kPlenty : random_.Between(0, 3000));
        full_ = !full_;
        break;
      case SimFault::kClockJump:
        c_->reactor().JumpWall(random_.Between(-absl::Hours(3), absl::Hours(3)));
        break;
      default:
        c_->provider().set_weather(random_.Chance(0.5) ? BadWeather(&random_) : FineWeather());
        break;
    }
  }

  void Peace() {
    c_->network().set_options(SimNetworkOptions{});
    c_->disk().SetFreeBytes(kPlenty);
    c_->provider().set_weather(FineWeather());
    c_->set_worker_restart(absl::Seconds(1));
    if (Anyone() == nullptr) Join();
  }

  SimCluster* const c_;
  std::map<SimFault, int64_t>* const injected_;
  Random& random_;
  std::vector<SimFault> enabled_;
  std::map<int, MonoTime> pause_again_;  // by process, not before
  int next_id_ = 0;
  bool full_ = false;
};

}  // namespace

const char* SimFaultName(SimFault fault) {
  static constexpr const char* kNames[kNumSimFaults] = {
      "break_stream", "half_open",  "pause",        "freeze",     "freeze_calls",
      "kill_worker",  "twin",       "drain_worker", "join",       "crash",
      "restart",      "sync_error", "full_disk",    "clock_jump", "weather"};
  return kNames[static_cast<int>(fault)];
}

bool IsGentle(uint64_t seed) { return seed % 4 == 0; }

SimClusterOptions RandomWorld(uint64_t seed) {
  Random random(seed * 31 + 7);
  SimClusterOptions options;
  options.seed = seed;
  options.jobs = random.Chance(0.7) ? 1 : static_cast<int>(random.Between(2, 3));
  options.models = random.Chance(0.6) ? 1 : static_cast<int>(random.Between(2, 3));
  const int sets = options.jobs * options.models;
  options.rows = sets == 1 ? (random.Chance(0.5) ? 60 : 30) : (sets < 4 ? 20 : 8);
  options.passes = static_cast<int>(random.Between(1, 3));
  options.batch_size = random.Between(3, 7);
  options.worker_in_flight = random.Between(1, 6);
  options.lease = absl::Seconds(random.Between(3, 6));
  options.split = random.Chance(0.7);
  options.disk_reserves = random.Chance(0.5);
  options.weather = random.Chance(0.5) ? FineWeather() : BadWeather(&random);
  options.network.delay.second = absl::Milliseconds(random.Between(2, 150));
  if (IsGentle(seed)) {
    // A pause, a broken stream and a new dial together are shorter than this.
    options.lease = absl::Seconds(random.Between(7, 10));
    return options;
  }
  if (random.Chance(0.3)) {
    options.network.loss = random.Unit() * 0.1;
    options.network.repetition = random.Unit() * 0.1;
    options.network.reorder = random.Unit() * 0.1;
  }
  options.worker_restart = absl::Seconds(random.Between(1, 8));
  if (random.Chance(0.2)) options.poison_item = random.Between(0, options.rows - 1);
  return options;
}

Task<void> Chaos(SimCluster* cluster, std::map<SimFault, int64_t>* injected) {
  ChaosMaker maker(cluster, injected);
  co_await maker.Run();
}

}  // namespace headrace
