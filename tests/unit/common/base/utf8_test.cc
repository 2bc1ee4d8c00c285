#include "common/base/utf8.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace headrace {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

std::string Encode(char32_t c) {
  std::string out;
  if (c < 0x80) {
    out = {static_cast<char>(c)};
  } else if (c < 0x800) {
    out = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    out = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
           static_cast<char>(0x80 | (c & 0x3F))};
  } else {
    out = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
           static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
  }
  return out;
}

TEST(Utf8, OverlongFormsSurrogatesAndWhatIsTooLargeAreInvalid) {
  for (const char* text : {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF",
                           "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\x80", "\xBF"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << testing::PrintToString(text);
  }
}

TEST(Utf8, EveryCodePointIsValidUnlessItIsASurrogate) {
  for (char32_t c = 0; c <= 0x110000; ++c) {
    const bool valid = (c < 0xD800 || c > 0xDFFF) && c <= 0x10FFFF;
    const std::string text = Encode(c);
    const Utf8Step step = NextUtf8(text);
    ASSERT_EQ(step.valid, valid) << std::hex << static_cast<uint32_t>(c);
    if (valid) {
      ASSERT_EQ(step.code_point, c);
      ASSERT_EQ(step.bytes, text.size());
    }
  }
}

TEST(Utf8, ThePrefixEndsBeforeTheFirstBadOrCutSequence) {
  EXPECT_EQ(ValidUtf8Prefix(""), 0u);
  EXPECT_EQ(ValidUtf8Prefix("abc"), 3u);
  EXPECT_EQ(ValidUtf8Prefix("ab\xE2\x82"), 2u);
  EXPECT_EQ(ValidUtf8Prefix("ab\xE2\x82\xAC"), 5u);
  EXPECT_EQ(ValidUtf8Prefix("twelve bytes\xFFmore"), 12u);
  for (size_t bad = 0; bad < 30; ++bad) {
    std::string text(30, 'x');
    text[bad] = '\xFF';
    EXPECT_EQ(ValidUtf8Prefix(text), bad);
  }
}

// Unicode 15, tables 3-8 to 3-11.
TEST(Utf8, OneReplacementStandsForEachMaximalSubpart) {
  const std::string r = kReplacement;
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(ReplaceInvalidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8, ReplacingLeavesValidTextAlone) {
  EXPECT_EQ(ReplaceInvalidUtf8("plain \u4E2D\U0001F600"), "plain \u4E2D\U0001F600");
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
}

TEST(Excerpt, NeverCutsACodePoint) {
  const std::string text = "ab\u4E2Dcd";
  EXPECT_EQ(ExcerptUtf8(text, 0), "...");
  EXPECT_EQ(ExcerptUtf8(text, 3), "ab...");
  EXPECT_EQ(ExcerptUtf8(text, 4), "ab...");
  EXPECT_EQ(ExcerptUtf8(text, 5), "ab\u4E2D...");
  EXPECT_EQ(ExcerptUtf8(text, 7), text);
  EXPECT_EQ(ExcerptUtf8("", 0), "");
}

TEST(Excerpt, CountsReplacementsWithTheirOwnSize) {
  EXPECT_EQ(ExcerptUtf8("\xFF\xFF", 5), std::string(kReplacement) + "...");
  EXPECT_EQ(ExcerptUtf8("\xFF\xFF", 6), std::string(kReplacement) + kReplacement);
}

TEST(PlainLine, ControlCharactersAreSpaces) {
  EXPECT_EQ(PlainLine("a\x1B[2J\nb\x7F\xC2\x9B" "c"), "a [2J b  c");
  EXPECT_EQ(PlainLine("\xC3\xA9 \xE6\xB0\xB4"), "\xC3\xA9 \xE6\xB0\xB4");
  EXPECT_EQ(PlainLine("\xFF"), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace headrace
