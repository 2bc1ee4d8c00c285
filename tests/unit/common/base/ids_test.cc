#include "common/base/ids.h"

#include <sstream>
#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "common/base/secret.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

template <typename T, typename = void>
struct IsPrintable : std::false_type {};
template <typename T>
struct IsPrintable<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<T>())>>
    : std::true_type {};

static_assert(!std::is_convertible_v<BatchId, ItemId>, "a batch is no item");
static_assert(!std::is_convertible_v<uint64_t, ItemId>, "a number is no item");
static_assert(!IsPrintable<Secret>::value, "a key must not be printable");

TEST(StrongId, ComparesHashesAndPrintsLikeItsNumber) {
  EXPECT_EQ(ItemId(7), ItemId(7));
  EXPECT_LT(ItemId(7), ItemId(8));
  EXPECT_EQ(ItemId().value(), 0u);
  const absl::flat_hash_set<ItemId> set = {ItemId(1), ItemId(2), ItemId(1)};
  EXPECT_EQ(set.size(), 2u);
  std::ostringstream out;
  out << ItemId(42);
  EXPECT_EQ(out.str(), "42");
}

TEST(Secret, ShowsItsValueOnlyWhenAsked) {
  EXPECT_TRUE(Secret().empty());
  EXPECT_EQ(Secret("sk-123").Reveal(), "sk-123");
}

}  // namespace
}  // namespace headrace
