#include "tests/integration/quota/script_store.h"

#include <gtest/gtest.h>
#include <hiredis.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/quota/model.h"

namespace headrace::quota {
namespace {

redis::Reply Convert(const redisReply& reply) {
  switch (reply.type) {
    case REDIS_REPLY_INTEGER:
      return redis::IntegerReply(reply.integer);
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      return redis::StringReply(absl::string_view(reply.str, reply.len));
    case REDIS_REPLY_ERROR:
      return redis::ErrorReply(absl::string_view(reply.str, reply.len));
    case REDIS_REPLY_ARRAY: {
      std::vector<redis::Reply> elements;
      for (size_t i = 0; i < reply.elements; ++i) elements.push_back(Convert(*reply.element[i]));
      return redis::ArrayReply(std::move(elements));
    }
    default:
      return redis::NilReply();
  }
}

}  // namespace

BlockingRedis::BlockingRedis(int port) : context_(redisConnect("127.0.0.1", port)) {
  HR_CHECK(context_ != nullptr && context_->err == 0) << "no Redis at port " << port;
}
BlockingRedis::~BlockingRedis() { redisFree(context_); }

redis::Reply BlockingRedis::Run(const std::vector<std::string>& argv) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string& arg : argv) {
    texts.push_back(arg.data());
    sizes.push_back(arg.size());
  }
  auto* reply = static_cast<redisReply*>(
      redisCommandArgv(context_, static_cast<int>(argv.size()), texts.data(), sizes.data()));
  HR_CHECK(reply != nullptr) << context_->errstr;
  redis::Reply converted = Convert(*reply);
  freeReplyObject(reply);
  return converted;
}

redis::Reply BlockingRedis::Eval(const redis::Script& script, const std::vector<std::string>& keys,
                                 const std::vector<std::string>& args) {
  std::vector<std::string> argv = {"EVALSHA", script.sha(), absl::StrCat(keys.size())};
  argv.insert(argv.end(), keys.begin(), keys.end());
  argv.insert(argv.end(), args.begin(), args.end());
  redis::Reply reply = Run(argv);
  if (!reply.is_error() || reply.text.rfind("NOSCRIPT", 0) != 0) return reply;
  argv[0] = "EVAL";
  argv[1] = script.text();
  return Run(argv);
}

ScriptStore::ScriptStore(Reactor* reactor, BlockingRedis* redis, PoolSpec spec, std::string account,
                         std::string worker, bool server_clock, std::optional<MonoTime> now)
    : reactor_(reactor),
      now_(now),
      redis_(redis),
      spec_(std::move(spec)),
      keys_(PoolKeys(account, spec_.name)),
      worker_(std::move(worker)),
      server_clock_(server_clock) {
  PoolOps describe;
  describe.Configure(PoolConfigText(spec_, absl::ZeroDuration()));
  Call(std::move(describe));
}

redis::Reply ScriptStore::RawCall(PoolOps ops, absl::Duration horizon, bool new_connection) {
  PoolCall call;
  if (!server_clock_) call.test_clock_us = absl::StrCat(Now().nanos() / 1000);
  call.new_connection = new_connection;
  call.worker = worker_;
  call.number = ++number_;
  call.horizon = horizon;
  call.ops = std::move(ops);
  return redis_->Eval(PoolScript(), keys_, PoolArgs(std::move(call)));
}

PoolReply ScriptStore::Call(PoolOps ops, absl::Duration horizon, bool new_connection) {
  reply_ = RawCall(std::move(ops), horizon, new_connection);
  absl::StatusOr<PoolReply> read = ReadPoolReply(reply_);
  HR_CHECK(read.ok()) << read.status();
  if (read->unknown_pool) return *read;
  TellIfChanged(*read);
  return *read;
}

void ScriptStore::TellIfChanged(const PoolReply& reply) {
  const PoolHint before = hint_;
  const bool was_closed = std::exchange(closed_, reply.closed);
  if (std::exchange(epoch_, reply.epoch) != reply.epoch) ++hint_.epoch;
  hint_.gate_until = MonoTime::FromNanos(reply.gate_us * 1000);
  hint_.free_slots = reply.slots < 0 ? std::numeric_limits<int64_t>::max()
                                     : std::max<int64_t>(0, reply.slots - reply.open);
  hint_.look_ahead = reply.packed ? PoolModel::kLookAhead : 1;
  const bool freed = before.free_slots == 0 && hint_.free_slots > 0;
  if (hint_.epoch == before.epoch && !freed && !(was_closed && !closed_)) return;
  PoolListener* listener = listeners_.front();
  while (listener != nullptr) {
    listener->OnPoolChanged();
    listener = listeners_.Next(listener);
  }
}

std::string ScriptStore::Dump() {
  return redis_
      ->Run({"EVAL", "return cjson.encode(cmsgpack.unpack(redis.call('GET', KEYS[1])))", "1",
             keys_[0]})
      .text;
}

Task<absl::StatusOr<std::vector<ReserveAnswer>>> ScriptStore::Reserve(
    std::string pool, std::vector<ReserveRequest> requests, absl::Duration horizon) {
  PoolOps ops;
  for (const ReserveRequest& request : requests) ops.Reserve(request);
  const PoolReply reply = Call(std::move(ops), horizon);
  std::vector<ReserveAnswer> answers;
  for (const redis::Reply* each : reply.answers) {
    absl::StatusOr<ReadAnswer> read = ReadReserveAnswer(*each, spec_.name);
    if (!read.ok()) co_return read.status();
    read->answer.at = MonoTime::FromNanos(read->at_us * 1000);
    answers.push_back(std::move(read->answer));
  }
  co_return answers;
}

std::optional<ReserveAnswer> ScriptStore::ReserveNow(absl::string_view pool,
                                                     const ReserveRequest& request,
                                                     absl::Duration horizon) {
  PoolOps ops;
  ops.Reserve(request);
  const PoolReply reply = Call(std::move(ops), horizon);
  absl::StatusOr<ReadAnswer> read = ReadReserveAnswer(*reply.answers.at(0), spec_.name);
  HR_CHECK(read.ok()) << read.status();
  read->answer.at = MonoTime::FromNanos(read->at_us * 1000);
  return read->answer;
}

void ScriptStore::Settle(absl::string_view pool, ReservationId id, Settlement settlement,
                         const Costs& actual) {
  PoolOps ops;
  ops.Settle(id, settlement, actual);
  Call(std::move(ops));
}

void ScriptStore::Penalize(absl::string_view pool, const Penalty& penalty) {
  PoolOps ops;
  ops.Penalize(penalty, {penalty.sent_at.nanos() / 1000});
  Call(std::move(ops));
}

void ScriptStore::Observe(absl::string_view pool, const Observation& observation) {
  PoolOps ops;
  ops.Observe(observation, {observation.sent_at.nanos() / 1000});
  Call(std::move(ops));
}

Task<absl::Status> ScriptStore::Reconfigure(PoolSpec spec) {
  const absl::Status valid = ValidatePool(spec);
  if (!valid.ok()) co_return valid;
  spec_ = std::move(spec);
  PoolOps ops;
  ops.Configure(PoolConfigText(spec_, absl::ZeroDuration()));
  Call(std::move(ops));
  co_return absl::OkStatus();
}

PoolSnapshot ScriptStore::Snapshot(absl::string_view pool) const {
  PoolOps ops;
  ops.Snapshot();
  // The question changes nothing that anybody would see.
  auto* self = const_cast<ScriptStore*>(this);
  const redis::Reply raw = self->RawCall(std::move(ops), absl::Seconds(2), false);
  absl::StatusOr<PoolReply> reply = ReadPoolReply(raw);
  HR_CHECK(reply.ok()) << reply.status();
  absl::StatusOr<ReadSnapshot> read = ReadPoolSnapshot(*reply->answers.at(0), reply->now_us);
  HR_CHECK(read.ok()) << read.status();
  read->snapshot.gate_until = MonoTime::FromNanos(reply->gate_us * 1000);
  return read->snapshot;
}

PoolHint ScriptStore::Hint(absl::string_view pool) const { return hint_; }

}  // namespace headrace::quota
