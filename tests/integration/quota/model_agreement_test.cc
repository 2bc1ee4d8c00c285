// The script in Redis and the model in memory are the same rules: random sequences get the same
// answers from both, to the microsecond, and end in the same state.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/random.h"
#include "common/quota/model.h"
#include "tests/integration/quota/script_store.h"

namespace headrace::quota {
namespace {

PoolSpec Draw(Random* random) {
  PoolSpec spec;
  spec.name = "p";
  spec.utilisation = random->Chance(0.5) ? 0.995 : 1;
  spec.reservation_timeout = absl::Seconds(random->Between(int64_t{3}, int64_t{120}));
  const auto mechanics = [&] {
    return random->Chance(0.5) ? Mechanics::kBucket : Mechanics::kWindow;
  };
  if (random->Chance(0.7)) {
    spec.dimensions.push_back(
        Limit(Dimension::kRequests, mechanics(), random->Between(int64_t{60}, int64_t{6'000})));
  }
  if (random->Chance(0.7)) {
    spec.dimensions.push_back(Limit(Dimension::kTokens, mechanics(),
                                    random->Between(int64_t{10'000}, int64_t{3'000'000})));
  }
  if (random->Chance(0.3)) {
    spec.dimensions.push_back(Limit(Dimension::kOutputTokens, mechanics(), 200'000));
  }
  if (random->Chance(0.4)) {
    spec.dimensions.push_back(
        Limit(Dimension::kInFlight, Mechanics::kGauge, random->Between(int64_t{1}, int64_t{60})));
  }
  if (random->Chance(0.2)) {
    spec.dimensions.push_back(Limit(Dimension::kTokensPerDay, Mechanics::kDay, 5'000'000));
  }
  if (spec.dimensions.empty()) {
    spec.dimensions.push_back(Limit(Dimension::kTokens, Mechanics::kBucket, 600'000));
  }
  for (DimensionSpec& d : spec.dimensions) {
    if (d.mechanics == Mechanics::kGauge || d.mechanics == Mechanics::kDay) continue;
    d.burst = absl::Milliseconds(random->Between(int64_t{0}, int64_t{1'000}));
    if (random->Chance(0.3)) d.window = absl::Seconds(random->Chance(0.5) ? 1 : 10);
    d.guard = std::min(d.guard, d.window / 4);
    if (random->Chance(0.2)) d.ramp_start = d.limit / 3;
  }
  return spec;
}

Costs DrawCosts(Random* random) {
  const int64_t input = random->Between(int64_t{0}, int64_t{3'000});
  const int64_t output = random->Between(int64_t{0}, int64_t{2'000});
  return Costs{1, random->Chance(0.01) ? 4'000'000 : input + output, input, output, 1, 0, 0};
}

std::string Text(const ReserveAnswer& answer) {
  return absl::StrCat(static_cast<int>(answer.kind), " at ", answer.at.nanos() / 1000, " by ",
                      static_cast<int>(answer.binding), " used ", absl::StrJoin(answer.used, ","),
                      " ", answer.text);
}

std::string Text(const PoolSnapshot& s) {
  return absl::StrCat("charged ", absl::StrJoin(s.charged_last_minute, ","), " limits ",
                      absl::StrJoin(s.limits, ","), " open ", s.in_flight, " by ",
                      s.limited_by ? static_cast<int>(*s.limited_by) : -1, " gate ",
                      s.gate_until.nanos() / 1000, " penalties ", s.penalties,
                      s.closed ? " closed " : " ", s.closed_text, " rate ", s.rate_share,
                      " capacity ", s.capacity_share, " expired ", s.expired, " outside ",
                      absl::StrJoin(s.outside, ","));
}

// Both, asked the same.
class Twins {
 public:
  Twins(BlockingRedis* redis, Random* random, std::string account)
      : random_(random),
        spec_(Draw(random)),
        now_(MonoTime::FromNanos(1'700'000'000'000'000'000 + random->Between(0, 1'000'000) * 1000)),
        model_(spec_, now_),
        script_(nullptr, redis, spec_, std::move(account), "w", false, now_) {}

  void Step() {
    Pass();
    const double choice = random_->Unit();
    if (choice < 0.55) {
      Reserve();
    } else if (choice < 0.9) {
      Settle();
    } else if (choice < 0.93) {
      Penalize();
    } else if (choice < 0.97) {
      Observe();
    } else if (choice < 0.98) {
      Reconfigure();
    }
    // The script has seen this time when it has been asked for a snapshot: so has the model.
    model_.Observe(now_, Observation{.dimension = Dimension::kInFlight});
    ASSERT_EQ(Text(model_.Snapshot(now_)), Text(script_.Snapshot("p"))) << what_;
    const PoolHint model = model_.Hint();
    const PoolHint script = script_.Hint("p");
    ASSERT_EQ(model.gate_until, script.gate_until) << what_;
    ASSERT_EQ(std::min<int64_t>(model.free_slots, 1 << 30),
              std::min<int64_t>(script.free_slots, 1 << 30))
        << what_;
    ASSERT_EQ(model.look_ahead, script.look_ahead);
  }

  std::string Describe() const {
    std::string text;
    for (const DimensionSpec& d : spec_.dimensions) {
      absl::StrAppend(&text, DimensionName(d.dimension), " m", static_cast<int>(d.mechanics), " ",
                      d.limit, "; ");
    }
    return text;
  }

 private:
  void Pass() {
    const double kind = random_->Unit();
    int64_t us = random_->Between(int64_t{0}, int64_t{200'000});
    if (kind < 0.3) us = 0;
    if (kind > 0.97) us = random_->Between(int64_t{0}, int64_t{70'000'000});
    if (kind > 0.998) us = 1'000'000'000;
    // Both hold on to the latest time that they have seen.
    if (kind > 0.95 && kind < 0.96) us = -random_->Between(int64_t{0}, int64_t{3'000'000});
    now_ = now_ + absl::Microseconds(us);
    script_.set_now(now_);
  }

  void Reserve() {
    const absl::Duration horizon =
        absl::Milliseconds(random_->Chance(0.8) ? 2'000 : random_->Between(0, 20'000));
    PoolOps ops;
    std::vector<std::string> expected;
    const int count = random_->Chance(0.5) ? 1 : static_cast<int>(random_->Between(1, 12));
    what_ = absl::StrCat("reserve ", count, " within ", absl::ToInt64Microseconds(horizon),
                         " us at ", now_.nanos() / 1000);
    for (int i = 0; i < count; ++i) {
      ReserveRequest request;
      const bool again = next_id_ > 10 && random_->Chance(0.1);
      request.id = ReservationId(again ? next_id_ - random_->Below(10) : ++next_id_);
      request.job_id = ~uint64_t{0} - random_->Below(3);
      request.model = static_cast<uint32_t>(random_->Below(2));
      request.weight = request.model == 0 ? 1 : 2.5;
      request.job_weight = random_->Chance(0.9) ? 1 : 0.3;
      request.costs = DrawCosts(random_);
      const ReserveAnswer answer = model_.Reserve(now_, request, horizon);
      if (answer.kind == ReserveAnswer::Kind::kSendAt) open_.push_back(request.id);
      expected.push_back(Text(answer));
      ops.Reserve(request);
    }
    const PoolReply reply = script_.Call(std::move(ops), horizon);
    ASSERT_EQ(reply.answers.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      absl::StatusOr<ReadAnswer> read = ReadReserveAnswer(*reply.answers[i], "p");
      ASSERT_TRUE(read.ok()) << read.status();
      read->answer.at = MonoTime::FromNanos(read->at_us * 1000);
      ASSERT_EQ(expected[i], Text(read->answer)) << i << " of " << what_ << "\n" << script_.Dump();
    }
  }

  void Settle() {
    what_ = "settle";
    PoolOps ops;
    const int count = static_cast<int>(random_->Between(1, 8));
    for (int i = 0; i < count && !open_.empty(); ++i) {
      const size_t index = random_->Below(std::min<size_t>(open_.size(), 20));
      const ReservationId id = open_[index];
      if (random_->Chance(0.9)) open_.erase(open_.begin() + static_cast<int64_t>(index));
      const auto settlement = static_cast<Settlement>(
          random_->Chance(0.6) ? 0 : random_->Between(int64_t{0}, int64_t{3}));
      const Costs actual = DrawCosts(random_);
      model_.Settle(now_, id, settlement, actual);
      ops.Settle(id, settlement, actual);
    }
    if (random_->Chance(0.05)) {
      // A cancellation that overtakes its question.
      const ReservationId id(next_id_ + 1);
      model_.Settle(now_, id, Settlement::kNotSent, Costs{});
      ops.Settle(id, Settlement::kNotSent, Costs{});
    }
    if (!ops.empty()) script_.Call(std::move(ops));
  }

  void Penalize() {
    Penalty penalty;
    penalty.kind = static_cast<Penalty::Kind>(
        random_->Chance(0.1) ? 3 : random_->Between(int64_t{0}, int64_t{2}));
    if (random_->Chance(0.5)) penalty.dimension = Dimension::kTokens;
    if (random_->Chance(0.6)) {
      penalty.retry_after = absl::Milliseconds(random_->Between(int64_t{0}, int64_t{8'000}));
    }
    penalty.sent_at = now_ - absl::Milliseconds(random_->Between(int64_t{0}, int64_t{3'000}));
    penalty.text = "no credit";
    what_ = absl::StrCat("penalty ", static_cast<int>(penalty.kind));
    model_.Penalize(now_, penalty);
    script_.Penalize("p", penalty);
  }

  void Observe() {
    Observation o;
    o.dimension = static_cast<Dimension>(random_->Below(kDimensionCount));
    if (random_->Chance(0.3)) o.limit = random_->Between(int64_t{0}, int64_t{4'000'000});
    if (random_->Chance(0.8)) o.used = random_->Between(int64_t{0}, int64_t{500'000});
    if (random_->Chance(0.7)) o.reset = absl::Milliseconds(random_->Between(-1'000, 61'000));
    if (o.reset && random_->Chance(0.5)) o.reset = absl::Floor(*o.reset, absl::Seconds(1));
    o.expected = random_->Between(int64_t{0}, int64_t{300'000});
    o.sent_at = now_ - absl::Milliseconds(random_->Between(int64_t{-100}, int64_t{3'000}));
    what_ = absl::StrCat("observe ", static_cast<int>(o.dimension));
    model_.Observe(now_, o);
    script_.Observe("p", o);
  }

  void Reconfigure() {
    what_ = "reconfigure";
    PoolSpec spec = random_->Chance(0.5) ? Draw(random_) : spec_;
    for (DimensionSpec& d : spec.dimensions) {
      if (random_->Chance(0.5)) d.limit = std::max<int64_t>(1, d.limit * 3 / 4);
    }
    spec_ = spec;
    model_.Reconfigure(now_, spec);
    PoolOps ops;
    ops.Configure(PoolConfigText(spec, absl::ZeroDuration()));
    script_.Call(std::move(ops));
  }

  Random* const random_;
  PoolSpec spec_;
  MonoTime now_;
  PoolModel model_;
  ScriptStore script_;
  std::string what_;
  uint64_t next_id_ = uint64_t{7} << 60;
  std::vector<ReservationId> open_;
};

TEST(PoolScript, AgreesWithTheModelToTheUnitOnRandomSequences) {
  if (!redis::HasRedisServer()) GTEST_SKIP() << "redis-server is not installed";
  redis::RedisServer server({"--save", ""});
  BlockingRedis redis(server.port());
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    Random random(seed);
    Twins twins(&redis, &random, absl::StrCat("s", seed));
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << twins.Describe());
    for (int step = 0; step < 250; ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      twins.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace headrace::quota
