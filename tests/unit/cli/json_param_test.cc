#include "cli/json_param.h"

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using Params = std::vector<std::pair<std::string, std::string>>;

TEST(ParseParam, RefusesWhatIsNoKeyWithJson) {
  for (const char* text : {"", "temperature", "=1", "a=", "a=b", "a={", "a=1,2", "a=1 2", "a=]["}) {
    Params params;
    EXPECT_EQ(ParseParam(text, &params).code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(params.empty());
  }
}

TEST(ParseParam, SaysThatTextNeedsQuotes) {
  Params params;
  EXPECT_TRUE(absl::StrContains(ParseParam("effort=low", &params).message(), "effort=\"...\""));
}

TEST(ParseParam, TheValueMayHoldAnEqualsSign) {
  Params params;
  ASSERT_TRUE(ParseParam(R"(stop="a=b")", &params).ok());
  EXPECT_EQ(params, (Params{{"stop", "\"a=b\""}}));
}

TEST(SetJsonMember, AppendsANewKeyAndReplacesAnOldOneInItsPlace) {
  EXPECT_EQ(*SetJsonMember("", "a", "1"), R"({"a":1})");
  EXPECT_EQ(*SetJsonMember("{}", "a", "1"), R"({"a":1})");
  EXPECT_EQ(*SetJsonMember(R"({"a":1,"b":2})", "c", "[3]"), R"({"a":1,"b":2,"c":[3]})");
  EXPECT_EQ(*SetJsonMember(R"({"a":1,"b":2})", "a", "\"x\""), R"({"a":"x","b":2})");
}

TEST(SetJsonMember, OtherMembersKeepTheirText) {
  EXPECT_EQ(
      *SetJsonMember(R"({"t": 1.00, "big": 12345678901234567890, "n": {"a": [1, 2]}})", "z", "0"),
      R"({"t":1.00,"big":12345678901234567890,"n":{"a": [1, 2]},"z":0})");
}

TEST(SetJsonMember, AKeyInsideAnotherValueIsNotTheKey) {
  EXPECT_EQ(*SetJsonMember(R"({"n":{"a":1}})", "a", "2"), R"({"n":{"a":1},"a":2})");
}

TEST(SetJsonMember, RefusesWhatIsNoObject) {
  for (const char* text : {"[]", "1", "{\"a\":", "nonsense"}) {
    EXPECT_EQ(SetJsonMember(text, "a", "1").status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace headrace
