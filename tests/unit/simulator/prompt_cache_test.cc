#include "simulator/prompt_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace headrace::simulator {
namespace {

std::string Text(char c, size_t bytes) { return std::string(bytes, c); }

TEST(PromptCache, WhatAnEarlierRequestBeganWithIsFoundInSteps) {
  PromptCache cache(1000);
  const std::string document = Text('a', 8192);
  EXPECT_EQ(cache.Use(document + Text('x', 600)), 0);
  EXPECT_EQ(cache.Use(document + Text('y', 600)), 2048);
  EXPECT_EQ(cache.Use(document + Text('y', 600)), 2048 + 128);
}

TEST(PromptCache, LessThan1024TokensAreNotFound) {
  PromptCache cache(1000);
  cache.Use(Text('a', 4095));
  EXPECT_EQ(cache.Use(Text('a', 4095)), 0);
  cache.Use(Text('a', 4096));
  EXPECT_EQ(cache.Use(Text('a', 4096)), 1024);
}

TEST(PromptCache, WhatWasNotUsedForLongestGoesFirst) {
  PromptCache cache(20);
  cache.Use(Text('a', 5120));  // 10 steps
  cache.Use(Text('b', 5120));
  EXPECT_EQ(cache.Use(Text('a', 5120)), 1280);
  cache.Use(Text('c', 5120));
  EXPECT_EQ(cache.Use(Text('a', 5120)), 1280);
  EXPECT_EQ(cache.Use(Text('b', 5120)), 0);
}

TEST(PromptCache, NoRoomIsNoCache) {
  PromptCache cache(0);
  cache.Use(Text('a', 8192));
  EXPECT_EQ(cache.Use(Text('a', 8192)), 0);
}

}  // namespace
}  // namespace headrace::simulator
