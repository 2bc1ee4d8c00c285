// How full a quota gets in an hour of virtual time, by what the provider counts and by how many
// workers share the pool.
//
//   quota_hour [minutes]
//
// Each line is one run from one seed: lognormal calls with a mean of 1,500 tokens and at most
// 16,000 (or 0.5 % of the limit, where it says so), 1 to 31 ms on the way to the provider, 4 s of
// latency, a store 1 ms away when there are several workers.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "simulator/quota_world.h"

namespace headrace::simulator {
namespace {

quota::DimensionSpec Tokens(quota::Mechanics mechanics, int64_t limit, absl::Duration window,
                            absl::Duration guard) {
  quota::DimensionSpec spec;
  spec.dimension = quota::Dimension::kTokens;
  spec.mechanics = mechanics;
  spec.limit = limit;
  spec.window = window;
  spec.guard = guard;
  if (mechanics == quota::Mechanics::kWindow) spec.burst = absl::Seconds(5);
  return spec;
}

void Run(const std::string& name, WorldOptions options) {
  const WorldResult result = RunWorld(options);
  const double per_call =
      static_cast<double>(result.questions) /
      static_cast<double>(std::max<int64_t>(result.accepted + result.rejected, 1));
  std::printf("%-58s %6.2f %% used, %7ld calls, %5ld rejected, %5.2f questions/call\n",
              name.c_str(), result.used * 100, static_cast<long>(result.accepted),
              static_cast<long>(result.rejected), per_call);
  std::fflush(stdout);
}

WorldOptions Base(double minutes, int64_t limit) {
  WorldOptions options;
  options.duration = absl::Minutes(minutes);
  options.warm_up = absl::Minutes(2);
  options.pool.name = "p";
  options.streams = static_cast<int>(limit / 2'000'000.0 * 400 + 60);
  return options;
}

int Main(double minutes) {
  for (const int64_t limit : {2'000'000, 200'000}) {
    for (const bool small : {false, true}) {
      WorldOptions base = Base(minutes, limit);
      if (small) {
        base.most = limit / 200;
        base.median = std::min(1000.0, static_cast<double>(base.most) / 3);
      }
      const std::string sizes = absl::StrCat(limit, small ? ", small" : "", ": ");
      for (const int workers : {1, 2, 16, 64}) {
        WorldOptions options = base;
        options.workers = workers;
        options.streams = std::max(options.streams, workers * 2);
        if (workers > 1) options.round_trip = absl::Milliseconds(1);
        options.provider = {
            {.kind = LimitKind::kTokens, .mechanics = Mechanics::kBucket, .limit = limit}};
        options.pool.dimensions = {
            Tokens(quota::Mechanics::kBucket, limit, absl::Minutes(1), absl::ZeroDuration())};
        Run(absl::StrCat(sizes, "bucket, ", workers, " workers"), options);
        options.provider = {{.kind = LimitKind::kTokens,
                             .mechanics = Mechanics::kWindow,
                             .limit = limit,
                             .offset = absl::Seconds(17)}};
        options.pool.dimensions = {
            Tokens(quota::Mechanics::kWindow, limit, absl::Minutes(1), absl::Milliseconds(50))};
        options.pool.utilisation = 1;
        Run(absl::StrCat(sizes, "fixed minutes, guard 50 ms, ", workers, " workers"), options);
      }
      for (const int guard_ms : {0, 250, 1500}) {
        WorldOptions options = base;
        options.stall_chance = 0.005;
        options.pool.utilisation = 1;
        options.pool.dimensions = {Tokens(quota::Mechanics::kWindow, limit, absl::Minutes(1),
                                          absl::Milliseconds(guard_ms))};
        options.provider = {{.kind = LimitKind::kTokens,
                             .mechanics = Mechanics::kWindow,
                             .limit = limit,
                             .offset = absl::Seconds(17)}};
        Run(absl::StrCat(sizes, "fixed minutes, stalls, guard ", guard_ms, " ms"), options);
        options.provider[0].mechanics = Mechanics::kSliding;
        options.provider[0].offset = absl::ZeroDuration();
        Run(absl::StrCat(sizes, "sliding minute, stalls, guard ", guard_ms, " ms"), options);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace headrace::simulator

int main(int argc, char** argv) {
  const double minutes = argc > 1 ? std::strtod(argv[1], nullptr) : 60;
  return headrace::simulator::Main(minutes > 3 ? minutes : 60);
}
