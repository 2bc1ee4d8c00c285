#include <utility>

#include "common/async/wait.h"
#include "tests/unit/common/quota/store_invariants.h"

namespace headrace::quota {
namespace {

Task<void> Sleeper(Reactor* reactor, absl::Duration time) {
  co_await Sleep(reactor, time, StopToken());
}

Task<void> Asker(PoolStore* store, std::vector<ReserveRequest> requests, absl::Duration horizon,
                 std::vector<ReserveAnswer>* answers) {
  absl::StatusOr<std::vector<ReserveAnswer>> result =
      co_await store->Reserve("p", std::move(requests), horizon);
  if (result.ok()) {
    *answers = *std::move(result);
  } else {
    ADD_FAILURE() << result.status();
  }
}

Task<void> Changer(PoolStore* store, PoolSpec spec, absl::Status* status) {
  *status = co_await store->Reconfigure(std::move(spec));
}

}  // namespace

StoreAtWork::StoreAtWork(const StoreParam& param, PoolSpec spec, bool cold) {
  spec.name = "p";
  store_ = param.make(&reactor_, {std::move(spec)});
  if (!cold) Pass(absl::Minutes(2));
  start_ = reactor_.Now();
}

std::vector<ReserveAnswer> StoreAtWork::Ask(std::vector<ReserveRequest> requests,
                                            absl::Duration horizon) {
  const size_t count = requests.size();
  std::vector<ReserveAnswer> answers;
  reactor_.Run(Asker(store_.get(), std::move(requests), horizon, &answers));
  EXPECT_EQ(answers.size(), count);
  answers.resize(count);
  return answers;
}

ReserveAnswer StoreAtWork::Ask(uint64_t id, Costs costs, absl::Duration horizon) {
  ReserveRequest request;
  request.id = ReservationId(id);
  request.job_id = 1;
  request.costs = costs;
  return Ask(std::vector<ReserveRequest>{request}, horizon).front();
}

void StoreAtWork::Settle(uint64_t id, Settlement settlement, const Costs& actual) {
  store_->Settle("p", ReservationId(id), settlement, actual);
}

absl::Status StoreAtWork::Reconfigure(PoolSpec spec) {
  spec.name = "p";
  absl::Status status;
  reactor_.Run(Changer(store_.get(), std::move(spec), &status));
  return status;
}

void StoreAtWork::Pass(absl::Duration time) { reactor_.Run(Sleeper(&reactor_, time)); }

}  // namespace headrace::quota
