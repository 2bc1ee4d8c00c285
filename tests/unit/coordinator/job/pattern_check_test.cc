// Case H8: patterns that made a server run out of memory, abort or crash when it compiled them.
#include "coordinator/job/pattern_check.h"

#include <string>

#include "gtest/gtest.h"

namespace headrace {
namespace {

std::string Problem(absl::string_view pattern) { return CheckPattern(pattern).problem; }

std::string Times(int n, absl::string_view text) {
  std::string out;
  for (int i = 0; i < n; ++i) out.append(text.data(), text.size());
  return out;
}

TEST(PatternCheck, TenThousandNestedParenthesesAreRefused) {
  EXPECT_EQ(Problem(Times(10'000, "(") + "a" + Times(10'000, ")")), "is longer than 4096 bytes");
  EXPECT_EQ(Problem(Times(2000, "(") + "a" + Times(2000, ")")),
            "has more than 100 groups in each other");
  EXPECT_EQ(Problem(Times(100, "(") + "a" + Times(100, ")")), "");
  EXPECT_EQ(Problem(Times(1000, "(a)")), "") << "not in each other";
}

TEST(PatternCheck, AnEnormousRepeatIsRefused) {
  EXPECT_EQ(Problem("[0-9]{99999}"), "repeats more than 2000 times: {99999}");
  EXPECT_EQ(Problem("a{1,2001}"), "repeats more than 2000 times: {1,2001}");
  EXPECT_EQ(Problem("a{2001,}"), "repeats more than 2000 times: {2001,}");
  EXPECT_EQ(Problem("a{99999999999999999999999999}"),
            "repeats more than 2000 times: {99999999999999999999999");
  EXPECT_EQ(Problem("a{0,2000}"), "");
}

TEST(PatternCheck, RepeatsOfRepeatsCountAsOften) {
  EXPECT_EQ(Problem("((a{100}){100}){100}"),
            "has repeats of repeats, 100000 characters and more when they are written out");
  EXPECT_EQ(Problem("((((((((((a{2000}){2000}){2000}){2000}){2000}){2000}){2000}){2000}))"),
            "has repeats of repeats, 100000 characters and more when they are written out");
  EXPECT_EQ(Problem("([a-z]{1,63}\\.){1,127}"), "");
}

TEST(PatternCheck, NothingToRepeatIsRefused) {
  EXPECT_EQ(Problem("^+[a-z]$"), "has '+' with nothing before it to repeat");
  for (const char* bad : {"*", "a|+", "(?:*)", "a**", "a{2}{3}", "\\b+", "{3}", "a+*"}) {
    EXPECT_NE(Problem(bad), "") << bad;
  }
}

TEST(PatternCheck, BracesThatAreNoCountsAreText) {
  EXPECT_EQ(Problem("^s(}}}|)}}}+"), "");
  EXPECT_EQ(Problem("{a}{,3}{}a{1,b}"), "");
  EXPECT_EQ(Problem("\\u{1000}+\\p{L}*"), "");
}

TEST(PatternCheck, WhatDoesNotEndIsRefused) {
  EXPECT_EQ(Problem("(a"), "has a '(' without its ')'");
  EXPECT_EQ(Problem("a)"), "has a ')' without its '('");
  EXPECT_EQ(Problem("[a"), "has a '[' without its ']'");
  EXPECT_EQ(Problem("[a\\"), "has a '[' without its ']'");
  EXPECT_EQ(Problem("a\\"), "ends in a '\\'");
  EXPECT_EQ(Problem("(?"), "has a '(?' that begins no known group");
  EXPECT_EQ(Problem("(?<>a)"), "has a '(?' that begins no known group");
  EXPECT_EQ(Problem("\\u{12"), "has a '{' without its '}'");
}

TEST(PatternCheck, RangesAndCountsInTheWrongOrderAreRefused) {
  EXPECT_EQ(Problem("[z-a]"), "has the range 'z-a' in the wrong order");
  EXPECT_EQ(Problem("a{3,2}"), "has the counts of {3,2} in the wrong order");
  EXPECT_EQ(Problem("[a-z0-9_-]"), "");
  EXPECT_EQ(Problem("[\\w-a]"), "");
  EXPECT_EQ(Problem("[^]-]"), "");
}

TEST(PatternCheck, OrdinaryPatternsAreFine) {
  for (const char* good :
       {"", "^[A-Z]{2}\\d{4}$", "^(?:[a-z]+|\\d+)(\\.[a-z]+)*?$", "(?P<name>a)(?<b>c)", "(?i)abc",
        "^\\S+@\\S+\\.\\S+$", "caf\xC3\xA9+", "[\xC3\xA9-\xC3\xBF]", "a|", "()", "[]",
        "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(?:\\.\\d+)?Z$"}) {
    EXPECT_EQ(Problem(good), "") << good;
  }
}

TEST(PatternCheck, WhatNotEveryEngineKnowsIsNamed) {
  EXPECT_TRUE(CheckPattern("^(?=.*\\S).+$").lookaround);
  EXPECT_TRUE(CheckPattern("(?<!a)b").lookaround);
  EXPECT_FALSE(CheckPattern("(?:a)[(?=]\\(?=").lookaround);
  EXPECT_TRUE(CheckPattern("(a)\\1").backreference);
  EXPECT_FALSE(CheckPattern("\\0[\\1]").backreference);
  EXPECT_TRUE(CheckPattern("\\bword").word_boundary);
  EXPECT_FALSE(CheckPattern("[\\b]").word_boundary);
}

}  // namespace
}  // namespace headrace
