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
  table.Add(SessionId(1), MakeGrant(7, 1, {10, 11, 12}), MonoTime::Max());
  EXPECT_TRUE(table.Close(BatchId(7), Epoch(1), ItemId(11)));
  EXPECT_EQ(table.open_items(), 2);
  EXPECT_THAT(Ids(table.Remove(BatchId(7), Epoch(1))), ElementsAre(10, 12));
  EXPECT_EQ(table.open_items(), 0);
  EXPECT_EQ(table.size(), 0u);
}

TEST(LeaseTable, AStaleEpochTouchesNothing) {
  LeaseTable table;
  table.Add(SessionId(1), MakeGrant(7, 2, {10}), MonoTime::Max());
  EXPECT_FALSE(table.Close(BatchId(7), Epoch(1), ItemId(10)));
  EXPECT_FALSE(table.Renew(BatchId(7), Epoch(1), MonoTime::Max()));
  EXPECT_THAT(table.Remove(BatchId(7), Epoch(1)), IsEmpty());
  EXPECT_EQ(table.open_items(), 1);
}

TEST(LeaseTable, ALeaseThatIsNotRenewedExpires) {
  LeaseTable table;
  const MonoTime t = MonoTime::FromNanos(1000);
  table.Add(SessionId(1), MakeGrant(1, 1, {1}), t);
  table.Add(SessionId(1), MakeGrant(2, 1, {2}), t);
  EXPECT_TRUE(table.Renew(BatchId(2), Epoch(1), t + absl::Seconds(1)));
  EXPECT_THAT(table.Expired(t), ElementsAre(BatchId(1)));
}

TEST(LeaseTable, ALostSessionNamesItsBatches) {
  LeaseTable table;
  table.Add(SessionId(1), MakeGrant(1, 1, {1}), MonoTime::Max());
  table.Add(SessionId(2), MakeGrant(2, 1, {2}), MonoTime::Max());
  EXPECT_THAT(table.OfSession(SessionId(2)), ElementsAre(BatchId(2)));
}

}  // namespace
}  // namespace headrace
