#include "worker/provider/tool_calls.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace headrace::provider {
namespace {

struct Joined {
  std::string text;
  bool ambiguous = false;
};

Joined Join(const std::vector<std::string>& deltas) {
  ToolCalls calls;
  Joined joined;
  for (const std::string& delta : deltas) calls.Add(delta);
  calls.Append(&joined.text);
  joined.ambiguous = calls.ambiguous();
  return joined;
}

std::string Call(const std::string& id, const std::string& name, const std::string& arguments) {
  return "{\"id\":\"" + id + "\",\"type\":\"function\",\"function\":{\"name\":\"" + name +
         "\",\"arguments\":\"" + arguments + "\"}}";
}

TEST(ToolCalls, InterleavedFragmentsGoByTheirIndex) {
  const Joined joined = Join(
      {R"([{"index":1,"id":"c1","type":"function","function":{"name":"g","arguments":""}}])",
       R"([{"index":0,"id":"c0","function":{"name":"f","arguments":""}}])",
       R"([{"index":1,"function":{"arguments":"{\"x\""}}])",
       R"([{"index":0,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":":1}"}}])"});
  EXPECT_EQ(joined.text, "[" + Call("c0", "f", "{}") + "," + Call("c1", "g", R"({\"x\":1})") + "]");
  EXPECT_FALSE(joined.ambiguous);
}

// Case A18.
TEST(ToolCalls, WithoutIndexArgumentsContinueTheLastCall) {
  const Joined joined = Join({R"([{"id":"c1","function":{"name":"f","arguments":"{\"a\""}}])",
                              R"([{"function":{"arguments":":1}"}}])"});
  EXPECT_EQ(joined.text, "[" + Call("c1", "f", R"({\"a\":1})") + "]");
  EXPECT_FALSE(joined.ambiguous);
}

TEST(ToolCalls, WithoutIndexANewIdIsANewCall) {
  const Joined joined = Join({R"([{"id":"c1","function":{"name":"f","arguments":"{}"}}])",
                              R"([{"id":"c2","function":{"name":"f","arguments":"["}}])",
                              R"([{"function":{"arguments":"]"}}])",
                              R"([{"id":"c1","function":{"arguments":" "}}])"});
  EXPECT_EQ(joined.text, "[" + Call("c1", "f", "{} ") + "," + Call("c2", "f", "[]") + "]");
  EXPECT_FALSE(joined.ambiguous);
}

TEST(ToolCalls, ANewIdUnderAnIndexInUseIsAnotherCallAndFlagged) {
  const Joined joined =
      Join({R"([{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}])",
            R"([{"index":0,"id":"c2","function":{"name":"g","arguments":"[]"}}])"});
  EXPECT_EQ(joined.text, "[" + Call("c1", "f", "{}") + "," + Call("c2", "g", "[]") + "]");
  EXPECT_TRUE(joined.ambiguous);
}

TEST(ToolCalls, TwoFragmentsWithNothingToTellThemApartAreFlagged) {
  EXPECT_TRUE(
      Join({R"([{"function":{"arguments":"a"}},{"function":{"arguments":"b"}}])"}).ambiguous);
  EXPECT_TRUE(Join({R"([{"function":{"arguments":"a"}}])"}).ambiguous);
}

TEST(ToolCalls, ANullIndexIsNoIndexAndARepeatedNameIsOneName) {
  const Joined joined =
      Join({R"([{"index":null,"id":"c","function":{"name":"f","arguments":null}}])",
            R"([{"index":null,"id":"c","function":{"name":"f","arguments":"1"}}])"});
  EXPECT_EQ(joined.text, "[" + Call("c", "f", "1") + "]");
}

TEST(ToolCalls, UnknownMembersAreKept) {
  const Joined joined = Join(
      {R"([{"index":0,"id":"c","extra_content":{"s":"t"},"function":{"name":"f","arguments":"","x":1}}])"});
  EXPECT_EQ(joined.text,
            R"([{"id":"c","type":"function","function":{"name":"f","arguments":"","x":1},)"
            R"("extra_content":{"s":"t"}}])");
}

TEST(ToolCalls, OnlyTextThatIsNotBlankIsProgress) {
  ToolCalls calls;
  EXPECT_TRUE(calls.Add(R"([{"index":0,"id":"c","function":{"name":"f","arguments":""}}])"));
  EXPECT_FALSE(calls.Add(R"([{"index":0,"function":{"arguments":" \n"}}])"));
  EXPECT_TRUE(calls.Add(R"([{"index":0,"function":{"arguments":"1"}}])"));
  EXPECT_FALSE(calls.Add("{}"));
  EXPECT_FALSE(calls.Add("[1,null]"));
}

}  // namespace
}  // namespace headrace::provider
