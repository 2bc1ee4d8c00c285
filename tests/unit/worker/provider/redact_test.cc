#include "worker/provider/redact.h"

#include <string>

#include <gtest/gtest.h>

namespace headrace::provider {
namespace {

constexpr char kKey[] = "sk-T3st/Key+With=Signs.$1_0123456789abcdef";

std::string Redacted(std::string text, const std::string& key = kKey) {
  RedactKey(Secret(key), &text);
  return text;
}

TEST(RedactKey, AKeyThatWasCutIsTakenOutToo) {
  EXPECT_EQ(Redacted("your key sk-T3st/Key+..."), "your key [redacted]...");
  EXPECT_EQ(Redacted("ends with sk-T3st/Key+W"), "ends with [redacted]");
  // What many keys begin with is no secret.
  EXPECT_EQ(Redacted("a key begins with sk-T3st"), "a key begins with sk-T3st");
}

TEST(RedactKey, EscapesOfJsonAndUrlsDoNotHideIt) {
  EXPECT_EQ(Redacted(R"("a sk-T3st\/Key+With=Signs.$1_0123456789abcdef")"), R"("a [redacted]")");
  EXPECT_EQ(Redacted(R"(sk-T3st/Key\u002bWith\u003DSigns.$1_0123456789abcdef)"), "[redacted]");
  EXPECT_EQ(Redacted(R"({\"raw\":\"sk-T3st\\/Key\\u002BWith=Signs.$1_0123456789abcdef\"})"),
            R"({\"raw\":\"[redacted]\"})");
  EXPECT_EQ(Redacted("?key=sk-T3st%2FKey%2bWith%3DSigns.%241_0123456789abcdef&x"),
            "?key=[redacted]&x");
}

TEST(RedactKey, EveryPlaceIsFound) {
  const std::string key = kKey;
  EXPECT_EQ(Redacted(key + key + " s" + key + "s"), "[redacted][redacted] s[redacted]s");
  EXPECT_EQ(Redacted("sk-sk-" + key), "sk-sk-[redacted]");
}

TEST(RedactKey, JsonStaysJson) {
  const std::string key = "nvapi-0123456789";
  // A line end, and the key without its first letter.
  EXPECT_EQ(Redacted("\"\\nvapi-0123456789\"", key), "\"\\nvapi-0123456789\"");
  // A backslash, and the key.
  EXPECT_EQ(Redacted("\"\\\\nvapi-0123456789\"", key), "\"\\\\[redacted]\"");
}

TEST(RedactKey, OtherTextIsLeftAlone) {
  const std::string text = R"(\u0073k \\ % %zz \u12 \ sk- \\\\\\\\\\\\/)";
  EXPECT_EQ(Redacted(text), text);
  EXPECT_EQ(Redacted(""), "");
  EXPECT_EQ(Redacted("secret is a word", "secret"), "secret is a word");
  EXPECT_EQ(Redacted("nothing here", ""), "nothing here");
}

TEST(RedactKey, EndlessBackslashesTakeNoEndlessTime) {
  const std::string text(4 << 20, '\\');
  EXPECT_EQ(Redacted(text), text);
  EXPECT_EQ(Redacted("sk-T3st/Key" + text), "sk-T3st/Key" + text);
  EXPECT_EQ(Redacted(text, "\\\\\\\\\\\\\\\\\\x").size(), text.size());
}

}  // namespace
}  // namespace headrace::provider
