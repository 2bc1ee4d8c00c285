// The invariants of the quota design, against any PoolStore: store_invariants.cc is linked into the
// test of each store, which instantiates the suite with a way to make one.
#ifndef HEADRACE_TESTS_UNIT_COMMON_QUOTA_STORE_INVARIANTS_H_
#define HEADRACE_TESTS_UNIT_COMMON_QUOTA_STORE_INVARIANTS_H_

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/async/virtual_reactor.h"
#include "common/quota/pool_store.h"
#include "simulator/quota_world.h"

namespace headrace::quota {

struct StoreParam {
  const char* name;
  simulator::MakePoolStore make;
  int seeds = 3;      // of each property; fewer for a store that is slow to ask
  double length = 1;  // of whole runs
};
inline void PrintTo(const StoreParam& param, std::ostream* out) { *out << param.name; }
inline std::string StoreName(const testing::TestParamInfo<StoreParam>& info) {
  return info.param.name;
}

class StoreInvariants : public testing::TestWithParam<StoreParam> {};

// A store of one pool "p" and its time, asked synchronously.
class StoreAtWork {
 public:
  // The pool has saved up its burst when `spec` begins to be asked, unless `cold`.
  StoreAtWork(const StoreParam& param, PoolSpec spec, bool cold = false);

  std::vector<ReserveAnswer> Ask(std::vector<ReserveRequest> requests,
                                 absl::Duration horizon = absl::Seconds(2));
  ReserveAnswer Ask(uint64_t id, Costs costs, absl::Duration horizon = absl::Seconds(2));
  void Settle(uint64_t id, Settlement settlement, const Costs& actual = {});
  void Penalize(const Penalty& penalty) { store_->Penalize("p", penalty); }
  void Observe(const Observation& observation) { store_->Observe("p", observation); }
  absl::Status Reconfigure(PoolSpec spec);
  PoolSnapshot Snapshot() const { return store_->Snapshot("p"); }

  void Pass(absl::Duration time);
  MonoTime Now() const { return reactor_.Now(); }
  // Seconds since the pool was ready.
  double Since(MonoTime time) const { return absl::ToDoubleSeconds(time - start_); }
  double Since() const { return Since(Now()); }

 private:
  VirtualReactor reactor_;
  std::unique_ptr<PoolStore> store_;
  MonoTime start_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_UNIT_COMMON_QUOTA_STORE_INVARIANTS_H_
