#include "coordinator/plan/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::Grant MakeGrant(uint64_t batch, uint32_t epoch, std::initializer_list<uint64_t> items) {
  v1::Grant grant;
  grant.set_batch_id(batch);
  grant.set_epoch(epoch);
  for (uint64_t item : items) grant.add_items()->set_item(item);
  return grant;
}

std::vector<uint64_t> Ids(const std::vector<v1::Item>& items) {
  std::vector<uint64_t> ids;
  for (const v1::Item& item : items) ids.push_back(item.item());
  return ids;
}

TEST(LeaseTable, ItemsWithoutAResultComeBackInOrder) {
  LeaseTable table;
  table.Add(WorkerKey(1), MakeGrant(7, 1, {10, 11, 12}), MonoTime::Max());
  EXPECT_TRUE(table.Close(BatchId(7), Epoch(1), ItemId(11)));
  EXPECT_EQ(table.open_items(), 2);
  EXPECT_THAT(Ids(table.Remove(BatchId(7), Epoch(1))), ElementsAre(10, 12));
  EXPECT_EQ(table.open_items(), 0);
  EXPECT_EQ(table.size(), 0u);
}

TEST(LeaseTable, AStaleEpochTouchesNothing) {
  LeaseTable table;
  table.Add(WorkerKey(1), MakeGrant(7, 2, {10}), MonoTime::Max());
  EXPECT_FALSE(table.Close(BatchId(7), Epoch(1), ItemId(10)));
  EXPECT_FALSE(table.Renew(WorkerKey(1), BatchId(7), Epoch(1), MonoTime::Max()));
  EXPECT_THAT(table.Remove(BatchId(7), Epoch(1)), IsEmpty());
  EXPECT_EQ(table.open_items(), 1);
}

TEST(LeaseTable, ALeaseThatIsNotRenewedExpires) {
  LeaseTable table;
  const MonoTime t = MonoTime::FromNanos(1000);
  table.Add(WorkerKey(1), MakeGrant(1, 1, {1}), t);
  table.Add(WorkerKey(1), MakeGrant(2, 1, {2}), t);
  EXPECT_TRUE(table.Renew(WorkerKey(1), BatchId(2), Epoch(1), t + absl::Seconds(1)));
  EXPECT_THAT(table.Expire(t), ElementsAre(BatchId(1)));
  EXPECT_THAT(table.lost(), ElementsAre(BatchId(1)));
  EXPECT_THAT(table.Expire(t), IsEmpty());  // once
  EXPECT_EQ(table.live(), 1u);
}

TEST(LeaseTable, AnotherWorkerCannotRenewALease) {
  LeaseTable table;
  table.Add(WorkerKey(1), MakeGrant(1, 1, {1}), MonoTime::Max());
  EXPECT_FALSE(table.Renew(WorkerKey(2), BatchId(1), Epoch(1), MonoTime::Max()));
}

TEST(LeaseTable, ALostLeaseIsIssuedAgainUnderTheNextEpochWithItsOpenItems) {
  LeaseTable table;
  table.Add(WorkerKey(1), MakeGrant(7, 1, {10, 11, 12}), MonoTime::Max());
  table.Close(BatchId(7), Epoch(1), ItemId(11));
  EXPECT_THAT(table.LoseWorker(WorkerKey(1)), ElementsAre(BatchId(7)));
  const v1::Grant grant =
      table.Reissue(BatchId(7), WorkerKey(2), BatchId(99), 100, MonoTime::Max());
  EXPECT_EQ(grant.batch_id(), 7u);
  EXPECT_EQ(grant.epoch(), 2u);
  ASSERT_EQ(grant.items_size(), 2);
  EXPECT_EQ(grant.items(0).item(), 10u);
  EXPECT_EQ(grant.items(1).item(), 12u);
  EXPECT_THAT(table.OfWorker(WorkerKey(2)), ElementsAre(BatchId(7)));
  EXPECT_FALSE(table.Renew(WorkerKey(1), BatchId(7), Epoch(1), MonoTime::Max()));
  EXPECT_FALSE(table.Close(BatchId(7), Epoch(1), ItemId(10)));
  EXPECT_EQ(table.open_items(), 2);
}

TEST(LeaseTable, AZombieThatWakesBeforeTheBatchIsIssuedAgainGoesOn) {
  LeaseTable table;
  const MonoTime t = MonoTime::FromNanos(1000);
  table.Add(WorkerKey(1), MakeGrant(7, 1, {10}), t);
  table.Expire(t);
  EXPECT_TRUE(table.Renew(WorkerKey(1), BatchId(7), Epoch(1), t + absl::Seconds(1)));
  EXPECT_THAT(table.lost(), IsEmpty());
}

TEST(LeaseTable, AWorkerWithFewCreditsGetsAPartOfALostBatchUnderANewId) {
  LeaseTable table;
  table.Add(WorkerKey(1), MakeGrant(7, 1, {10, 11, 12}), MonoTime::Max());
  table.LoseWorker(WorkerKey(1));
  const v1::Grant part = table.Reissue(BatchId(7), WorkerKey(2), BatchId(8), 1, MonoTime::Max());
  EXPECT_EQ(part.batch_id(), 8u);
  EXPECT_EQ(part.epoch(), 1u);
  ASSERT_EQ(part.items_size(), 1);
  EXPECT_EQ(part.items(0).item(), 10u);
  EXPECT_THAT(table.lost(), ElementsAre(BatchId(7)));
  // The rest is out of reach of its first holder.
  EXPECT_FALSE(table.Renew(WorkerKey(1), BatchId(7), Epoch(1), MonoTime::Max()));
  const v1::Grant rest = table.Reissue(BatchId(7), WorkerKey(2), BatchId(9), 9, MonoTime::Max());
  EXPECT_EQ(rest.batch_id(), 7u);
  EXPECT_EQ(rest.epoch(), 3u);
  EXPECT_EQ(rest.items_size(), 2);
  EXPECT_EQ(table.open_items(), 3);
}

TEST(LeaseTable, AnExpiredLeaseMayBeHeldUntilItsWorkerHasSaidWhatItHolds) {
  LeaseTable table;
  const MonoTime t = MonoTime::FromNanos(1000);
  table.Add(WorkerKey(1), MakeGrant(7, 1, {10}), t);
  table.Add(WorkerKey(2), MakeGrant(8, 1, {11}), t);
  table.Expire(t);
  EXPECT_TRUE(table.Find(BatchId(7))->maybe_held);
  EXPECT_TRUE(table.HoldsNoLost(WorkerKey(1)));
  EXPECT_FALSE(table.HoldsNoLost(WorkerKey(1))) << "nothing new";
  EXPECT_FALSE(table.Find(BatchId(7))->maybe_held);
  EXPECT_TRUE(table.Find(BatchId(8))->maybe_held) << "of another worker";
  // A process that is gone holds nothing.
  table.Add(WorkerKey(3), MakeGrant(9, 1, {12}), t);
  table.LoseWorker(WorkerKey(3));
  EXPECT_FALSE(table.Find(BatchId(9))->maybe_held);
}

TEST(LeaseTable, ABatchThatWasLostTwiceIsSuspectAndSoAreItsParts) {
  LeaseTable table;
  table.Add(WorkerKey(1), MakeGrant(7, 1, {10, 11}), MonoTime::Max());
  table.LoseWorker(WorkerKey(1));
  table.Reissue(BatchId(7), WorkerKey(2), BatchId(8), 9, MonoTime::Max());
  EXPECT_TRUE(table.HoldsAny(WorkerKey(2)));
  EXPECT_FALSE(table.HoldsSuspect(WorkerKey(2))) << "a worker can be lost for reasons of its own";
  table.LoseWorker(WorkerKey(2));
  EXPECT_FALSE(table.HoldsAny(WorkerKey(2)));
  table.Reissue(BatchId(7), WorkerKey(3), BatchId(8), 9, MonoTime::Max());
  EXPECT_TRUE(table.HoldsSuspect(WorkerKey(3)));
  EXPECT_FALSE(table.HoldsSuspect(WorkerKey(4)));
  table.Reissue(BatchId(7), WorkerKey(4), BatchId(9), 9, MonoTime::Max());
  EXPECT_TRUE(table.HoldsSuspect(WorkerKey(4)));
  table.Remove(BatchId(8), Epoch(1));
  EXPECT_FALSE(table.HoldsSuspect(WorkerKey(3)));
}

// One item of 500 kills every worker that runs it.
TEST(LeaseTable, AnItemThatKillsItsWorkersIsFoundByHalving) {
  LeaseTable table;
  v1::Grant grant = MakeGrant(1, 1, {});
  for (uint64_t item = 0; item < 500; ++item) grant.add_items()->set_item(item);
  table.Add(WorkerKey(1), grant, MonoTime::Max());
  constexpr uint64_t kPoison = 321;
  uint64_t worker = 1;
  uint64_t next_id = 2;
  int deaths = 0;
  std::vector<v1::Grant> held = {grant};
  while (true) {
    bool died = false;
    for (const v1::Grant& batch : held) {
      for (const v1::Item& item : batch.items()) died = died || item.item() == kPoison;
    }
    ASSERT_TRUE(died);
    // The worker finishes the batches without the item, and dies with the other.
    for (const v1::Grant& batch : held) {
      bool poisoned = false;
      for (const v1::Item& item : batch.items()) poisoned = poisoned || item.item() == kPoison;
      if (!poisoned) {
        for (const v1::Item& item : batch.items()) {
          table.Close(BatchId(batch.batch_id()), Epoch(batch.epoch()), ItemId(item.item()));
        }
        table.Remove(BatchId(batch.batch_id()), Epoch(batch.epoch()));
      }
    }
    ++deaths;
    const std::vector<BatchId> lost = table.LoseWorker(WorkerKey(worker));
    ASSERT_EQ(lost.size(), 1u);
    if (table.IsPoison(lost[0])) break;
    ++worker;
    held.clear();
    while (!table.lost().empty()) {
      held.push_back(table.Reissue(*table.lost().begin(), WorkerKey(worker), BatchId(next_id++),
                                   500, MonoTime::Max()));
    }
    ASSERT_LT(deaths, 40);
  }
  EXPECT_LE(deaths, 13);
  EXPECT_EQ(table.open_items(), 1);
}

}  // namespace
}  // namespace headrace
