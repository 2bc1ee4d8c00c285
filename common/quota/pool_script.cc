#include "common/quota/pool_script.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/quota/flows.h"
#include "common/quota/limit.h"

namespace headrace::quota {

extern const char* const kPoolScriptText;  // made of lua/ when this is built

namespace {

// The longest text of the provider that is kept with a stopped pool.
constexpr size_t kMaxTextBytes = 500;
constexpr int64_t kSnapshotWaitUs = 5'000'000;  // as PoolModel::Snapshot()
constexpr size_t kHeader = 10;                  // numbers of the first answer

constexpr size_t Index(Dimension dimension) { return static_cast<size_t>(dimension); }

std::string Number(int64_t value) { return absl::StrCat(value); }

void AddCosts(const Costs& costs, std::vector<std::string>* args) {
  for (const int64_t cost : costs) args->push_back(Number(cost));
}

std::string OptionalUs(const std::optional<absl::Duration>& duration) {
  return Number(duration ? std::max<int64_t>(-1, absl::ToInt64Microseconds(*duration)) : -1);
}

// Beyond 2^53 a script cannot count.
int64_t Countable(int64_t value) { return std::clamp<int64_t>(value, -1, int64_t{1} << 50); }

absl::Status NoAnswer(const redis::Reply& reply) {
  return absl::InternalError(absl::StrCat("the pool's script answered ", reply.ToString()));
}

// The numbers that `text` begins with, or nothing; what is behind them goes to `rest`.
bool ReadNumbers(absl::string_view text, size_t count, int64_t* numbers, absl::string_view* rest) {
  for (size_t i = 0; i < count; ++i) {
    const size_t end = std::min(text.find(' '), text.size());
    if (!absl::SimpleAtoi(text.substr(0, end), &numbers[i])) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  *rest = text;
  return true;
}

bool IsDimension(int64_t number) {
  return number >= 0 && number < static_cast<int64_t>(kDimensionCount);
}

}  // namespace

const redis::Script& PoolScript() {
  static const auto* const script = new redis::Script(kPoolScriptText);
  return *script;
}

std::vector<std::string> PoolKeys(absl::string_view account, absl::string_view pool) {
  const auto key = [&](absl::string_view kind) {
    return absl::StrCat("headrace:{", account, "}:", kind, ":", pool);
  };
  std::vector<std::string> keys;
  for (const char* kind : {"pool", "cfg", "rsv", "exp", "closed", "workers", "use", "calls"}) {
    keys.push_back(key(kind));
  }
  for (size_t d = 0; d < kDimensionCount; ++d) keys.push_back(absl::StrCat(key("ring"), ":", d));
  keys.push_back(key("knee"));
  return keys;
}

std::string PoolChannel(absl::string_view account, absl::string_view pool) {
  return absl::StrCat("headrace:{", account, "}:hint:", pool);
}

std::string PoolConfigText(const PoolSpec& spec, absl::Duration learn) {
  int64_t gauge = 0;
  std::string limits;
  int count = 0;
  for (const DimensionSpec& d : spec.dimensions) {
    if (d.mechanics == Mechanics::kGauge) {
      gauge = d.limit;
      continue;
    }
    ++count;
    const RateLimit limit(d, spec.utilisation);
    const Bucket& bucket = limit.bucket();
    absl::StrAppend(&limits, " ", Index(d.dimension), " ", d.limit, " ", limit.paced() ? 1 : 0, " ",
                    absl::ToInt64Microseconds(d.burst), " ", bucket.scale(), " ",
                    bucket.Ticks(1, kFullShare));
    if (limit.windowed()) {
      const Ring& ring = limit.ring();
      absl::StrAppend(&limits, " ", ring.size(), " ", ring.width_us(), " ", ring.cell_us(), " ",
                      ring.span(), " ", limit.daily() ? 1 : 0);
    } else {
      absl::StrAppend(&limits, " 0 0 0 0 0");
    }
    if (limit.ramp().exists()) {
      absl::StrAppend(&limits, " ", limit.ramp().value(), " ",
                      std::llround(d.ramp_growth * 10'000));
    } else {
      absl::StrAppend(&limits, " 0 0");
    }
  }
  return absl::StrCat(gauge, " ", absl::ToInt64Microseconds(spec.reservation_timeout), " ",
                      absl::ToInt64Microseconds(learn), " ", spec.auto_in_flight ? 1 : 0, " ",
                      count, limits);
}

Costs NormalisedCosts(const Costs& costs) {
  Costs normalised = costs;
  for (int64_t& cost : normalised) cost = std::clamp<int64_t>(cost, 0, int64_t{1} << 50);
  int64_t& requests = normalised[Index(Dimension::kRequests)];
  requests = std::max<int64_t>(1, requests);
  normalised[Index(Dimension::kInFlight)] = 1;
  normalised[Index(Dimension::kRequestsPerDay)] = requests;
  normalised[Index(Dimension::kTokensPerDay)] = std::max(
      normalised[Index(Dimension::kTokens)],
      normalised[Index(Dimension::kInputTokens)] + normalised[Index(Dimension::kOutputTokens)]);
  return normalised;
}

void PoolOps::Reserve(const ReserveRequest& request) {
  args_.insert(args_.end(), {"R", absl::StrCat(request.id.value()), absl::StrCat(request.job_id),
                             Number(request.model), Number(WeightMilli(request.job_weight)),
                             Number(WeightMilli(request.weight))});
  AddCosts(NormalisedCosts(request.costs), &args_);
}

void PoolOps::Settle(ReservationId id, Settlement settlement, const Costs& actual) {
  args_.insert(args_.end(),
               {"S", absl::StrCat(id.value()), Number(static_cast<int64_t>(settlement))});
  if (settlement != Settlement::kCharged) return;
  Costs bounded = actual;
  for (int64_t& cost : bounded) cost = std::clamp<int64_t>(cost, 0, int64_t{1} << 50);
  AddCosts(bounded, &args_);
}

void PoolOps::Penalize(const Penalty& penalty, ServerTime sent) {
  const int64_t dimension = penalty.dimension ? static_cast<int64_t>(*penalty.dimension) : -1;
  args_.insert(args_.end(), {"P", Number(static_cast<int64_t>(penalty.kind)), Number(dimension),
                             OptionalUs(penalty.retry_after), Number(sent.us),
                             penalty.text.substr(0, kMaxTextBytes)});
}

void PoolOps::Observe(const Observation& observation, ServerTime sent) {
  args_.insert(args_.end(),
               {"O", Number(static_cast<int64_t>(observation.dimension)),
                Number(Countable(observation.limit.value_or(-1))),
                Number(Countable(observation.used.value_or(-1))), OptionalUs(observation.reset),
                Number(Countable(observation.expected)), Number(sent.us)});
}

void PoolOps::Configure(std::string config_text) {
  args_.push_back("C");
  args_.push_back(std::move(config_text));
}

void PoolOps::Adopt(ReservationId id, uint64_t job_id, uint32_t model, ServerTime send_at) {
  args_.insert(args_.end(), {"A", absl::StrCat(id.value()), absl::StrCat(job_id), Number(model),
                             Number(send_at.us)});
}

void PoolOps::ReportLocal(const Costs& debt, const std::vector<LocalCell>& cells) {
  args_.push_back("D");
  AddCosts(debt, &args_);
  args_.push_back(absl::StrCat(cells.size()));
  for (const LocalCell& cell : cells) {
    args_.push_back(Number(cell.age_s));
    AddCosts(cell.costs, &args_);
  }
}

void PoolOps::AddNumbers(const FlightSample& sample) {
  const std::vector<int64_t> numbers = sample.ToNumbers();
  std::vector<std::string> pairs;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) continue;
    pairs.push_back(absl::StrCat(i));
    pairs.push_back(Number(numbers[i]));
  }
  args_.push_back(absl::StrCat(pairs.size() / 2));
  for (std::string& pair : pairs) args_.push_back(std::move(pair));
}

void PoolOps::Sample(const FlightSample& sample) {
  args_.push_back("K");
  AddNumbers(sample);
}

void PoolOps::Step(const KneeTurn& turn, const KneeFinder& finder) {
  args_.insert(args_.end(), {"L", turn.token, Number(finder.limit()), finder.why(), finder.Save()});
  AddNumbers(turn.sample);
}

void PoolOps::Append(PoolOps other) {
  if (args_.empty()) {
    args_ = std::move(other.args_);
    return;
  }
  for (std::string& arg : other.args_) args_.push_back(std::move(arg));
}

std::vector<std::string> PoolArgs(PoolCall call) {
  std::vector<std::string> args = {call.test_clock_us,
                                   call.new_connection ? "1" : "",
                                   call.worker,
                                   absl::StrCat(call.number),
                                   Number(absl::ToInt64Microseconds(call.horizon)),
                                   call.channel};
  for (std::string& arg : call.ops.Take()) args.push_back(std::move(arg));
  return args;
}

absl::StatusOr<PoolReply> ReadPoolReply(const redis::Reply& reply) {
  PoolReply read;
  if (reply.is_text() && reply.text == "NOCONFIG") {
    read.unknown_pool = true;
    return read;
  }
  int64_t numbers[kHeader];
  absl::string_view rest;
  if (!ReadNumbers(reply.At(0).text, kHeader, numbers, &rest)) return NoAnswer(reply);
  read.now_us = numbers[0];
  read.incarnation = numbers[1];
  read.epoch = numbers[2];
  read.gate_us = numbers[3];
  read.slots = numbers[4];
  read.open = numbers[5];
  read.packed = numbers[6] != 0;
  read.closed = numbers[7] != 0;
  read.worker_known = numbers[8] != 0;
  read.workers = numbers[9];
  for (size_t i = 1; i < reply.elements.size(); ++i) read.answers.push_back(&reply.At(i));
  return read;
}

absl::StatusOr<ReadAnswer> ReadReserveAnswer(const redis::Reply& reply, absl::string_view pool) {
  int64_t head[3];
  absl::string_view rest;
  if (!ReadNumbers(reply.text, 3, head, &rest) || !IsDimension(head[2])) return NoAnswer(reply);
  ReadAnswer read;
  read.at_us = head[1];
  read.answer.binding = static_cast<Dimension>(head[2]);
  int64_t tail[kDimensionCount] = {};
  switch (head[0]) {
    case 0:
      read.answer.kind = ReserveAnswer::Kind::kSendAt;
      if (!rest.empty()) {
        if (!ReadNumbers(rest, kDimensionCount, tail, &rest)) return NoAnswer(reply);
        std::copy(std::begin(tail), std::end(tail), read.answer.used.begin());
      }
      return read;
    case 1:
      read.answer.kind = ReserveAnswer::Kind::kRetryAt;
      return read;
    case 2:
      if (!ReadNumbers(rest, 2, tail, &rest)) return NoAnswer(reply);
      read.answer.kind = ReserveAnswer::Kind::kNeverFits;
      read.answer.text = absl::StrCat("needs ", tail[0], " ", DimensionName(read.answer.binding),
                                      ", but the limit of pool ", pool, " is ", tail[1]);
      return read;
    case 3:
      read.answer.kind = ReserveAnswer::Kind::kClosed;
      read.answer.text = std::string(rest);
      return read;
    default:
      return NoAnswer(reply);
  }
}

absl::StatusOr<KneeAnswer> ReadKneeAnswer(const redis::Reply& reply) {
  KneeAnswer read;
  absl::string_view text = reply.text;
  if (!absl::ConsumePrefix(&text, "! ")) {
    if (!ReadNumbers(text, 1, &read.limit, &text)) return NoAnswer(reply);
    read.why = std::string(text);
    return read;
  }
  int64_t head[4];
  if (!ReadNumbers(text, 4, head, &text)) return NoAnswer(reply);
  read.limit = head[0];
  KneeTurn& turn = read.turn.emplace();
  turn.now_us = head[1];
  turn.workers = head[2];
  std::vector<int64_t> numbers(FlightSample::kNumbers);
  for (int64_t i = 0; i < head[3]; ++i) {
    int64_t pair[2];
    if (!ReadNumbers(text, 2, pair, &text)) return NoAnswer(reply);
    if (pair[0] >= 0 && pair[0] < static_cast<int64_t>(numbers.size())) {
      numbers[static_cast<size_t>(pair[0])] = pair[1];
    }
  }
  turn.sample = FlightSample::FromNumbers(numbers);
  turn.state = std::string(text);
  return read;
}

absl::StatusOr<ReadSnapshot> ReadPoolSnapshot(const redis::Reply& reply, int64_t now_us) {
  int64_t head[5];
  int64_t shares[3];
  int64_t costs[3 * kDimensionCount];
  absl::string_view rest;
  if (!ReadNumbers(reply.text, 5, head, &rest) || !ReadNumbers(rest, 3, shares, &rest) ||
      !ReadNumbers(rest, 3 * kDimensionCount, costs, &rest) || !IsDimension(head[3])) {
    return NoAnswer(reply);
  }
  ReadSnapshot read;
  PoolSnapshot& snapshot = read.snapshot;
  snapshot.penalties = head[0];
  snapshot.expired = head[1];
  read.waited_us = head[2];
  if (head[2] > 0 && head[2] > now_us - kSnapshotWaitUs) {
    snapshot.limited_by = static_cast<Dimension>(head[3]);
  }
  snapshot.closed = head[4] != 0;
  snapshot.closed_text = std::string(rest);
  snapshot.capacity_share = static_cast<double>(shares[0]) / kFullShare;
  snapshot.in_flight = shares[1];
  snapshot.rate_share = static_cast<double>(shares[2]) / kFullShare;
  for (size_t d = 0; d < kDimensionCount; ++d) {
    snapshot.charged_last_minute[d] = costs[d];
    snapshot.limits[d] = costs[kDimensionCount + d];
    snapshot.outside[d] = costs[2 * kDimensionCount + d];
  }
  return read;
}

}  // namespace headrace::quota
