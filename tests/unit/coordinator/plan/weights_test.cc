#include "coordinator/plan/weights.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

TEST(WeightedTurns, ServesInProportionToTheWeights) {
  WeightedTurns turns({3, 1});
  std::vector<int> served(2, 0);
  for (int i = 0; i < 400; ++i) {
    const size_t next = *turns.Next([](size_t) { return true; });
    ++served[next];
    turns.Serve(next, 10);
  }
  EXPECT_EQ(served[0], 300);
  EXPECT_EQ(served[1], 100);
}

TEST(WeightedTurns, AModelThatWasAwayGetsNoBurst) {
  WeightedTurns turns({1, 1});
  for (int i = 0; i < 100; ++i) turns.Serve(0, 10);
  int in_a_row = 0;
  for (int i = 0; i < 20; ++i) {
    const size_t next = *turns.Next([](size_t) { return true; });
    turns.Serve(next, 10);
    if (next == 1) ++in_a_row;
  }
  EXPECT_NEAR(in_a_row, 10, 1);
}

TEST(WeightedTurns, OneThatCannotIsPassedOver) {
  WeightedTurns turns({1, 1});
  turns.Serve(1, 10);
  EXPECT_EQ(turns.Next([](size_t i) { return i == 1; }), 1u);
  EXPECT_EQ(turns.Next([](size_t) { return false; }), std::nullopt);
}

}  // namespace
}  // namespace headrace
