#include "cli/progress/text_width.h"

#include "gtest/gtest.h"

namespace headrace {
namespace {

TEST(FitText, ControlCharactersAndBadUtf8NeverReachTheTerminal) {
  EXPECT_EQ(FitText("a\x1b[2Jb\r\n\x07", 80), "a?[2Jb???");
  EXPECT_EQ(FitText("\xff|\u009b", 80), "?|?");
}

TEST(FitText, WhatFitsIsLeftAlone) {
  EXPECT_EQ(FitText("exact", 5), "exact");
  EXPECT_EQ(FitText("", 0), "");
}

TEST(FitText, WhatIsCutEndsInATildeWithinTheColumns) {
  EXPECT_EQ(FitText("exact", 4), "exa~");
  EXPECT_EQ(FitText("exact", 1), "~");
  EXPECT_EQ(FitText("exact", 0), "");
}

TEST(FitText, AWideCharacterIsNeverHalved) {
  EXPECT_EQ(FitText("\u4E2D\u6587", 4), "\u4E2D\u6587");
  EXPECT_EQ(FitText("\u4E2D\u6587", 3), "\u4E2D~");
  EXPECT_EQ(FitText("\u4E2D\u6587", 2), "~");
  for (int columns = 0; columns < 8; ++columns) {
    EXPECT_LE(TextWidth(FitText("a\u4E2D\U0001F600e\u0301xyz", columns)), columns);
  }
}

TEST(TextWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(TextWidth("abc"), 3);
  EXPECT_EQ(TextWidth("\u00E9"), 1);
  EXPECT_EQ(TextWidth("e\u0301"), 1);
  EXPECT_EQ(TextWidth("\u4E2D\u6587"), 4);
  EXPECT_EQ(TextWidth("\U0001F600"), 2);
}

}  // namespace
}  // namespace headrace
