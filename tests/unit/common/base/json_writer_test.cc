#include "common/base/json_writer.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/utf8.h"
#include "gtest/gtest.h"
#include "simdjson.h"

namespace headrace {
namespace {

std::string JsonString(absl::string_view text) {
  std::string out;
  AppendJsonString(text, &out);
  return out;
}

// What a reader makes of `json`.
std::string ParseJsonString(const std::string& json) {
  simdjson::dom::parser parser;
  std::string_view value;
  const std::string document = absl::StrCat("[", json, "]");
  EXPECT_EQ(parser.parse(document).at(0).get(value), simdjson::SUCCESS) << json;
  return std::string(value);
}

std::string Double(double value) {
  std::string out;
  JsonWriter(&out).Double(value);
  return out;
}

std::string Fixed(double value, int digits) {
  std::string out;
  JsonWriter(&out).Fixed(value, digits);
  return out;
}

TEST(JsonString, InvalidUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(JsonString("a\xff\xfe"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonString("cut \xE2\x82"), "\"cut \xEF\xBF\xBD\"");
  EXPECT_EQ(JsonString("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonString, EveryControlCharacterIsEscaped) {
  EXPECT_EQ(JsonString("\b\f\n\r\t"), R"("\b\f\n\r\t")");
  EXPECT_EQ(JsonString(absl::string_view("\0\x01\x1f", 3)), R"("\u0000\u0001\u001f")");
  EXPECT_EQ(JsonString("\"\\/"), R"("\"\\/")");
}

TEST(JsonString, LineSeparatorsOfUnicodeAreEscapedAndTheirNeighboursAreNot) {
  EXPECT_EQ(JsonString("\u2028|\u2029"), R"("\u2028|\u2029")");
  EXPECT_EQ(JsonString("\u2027\u202A"), "\"\u2027\u202A\"");
}

TEST(JsonString, TextOfOtherScriptsIsCopied) {
  EXPECT_EQ(JsonString("h\u00E9 \u4E2D\U0001F600"), "\"h\u00E9 \u4E2D\U0001F600\"");
}

TEST(JsonString, AnEscapeIsFoundAtEveryPositionOfALongRun) {
  for (const char special : {'"', '\\', '\n', '\x1f', '\0'}) {
    for (size_t length = 1; length < 40; ++length) {
      for (size_t at = 0; at < length; ++at) {
        std::string text(length, 'x');
        text[at] = special;
        const std::string json = JsonString(text);
        EXPECT_GT(json.size(), length + 2) << int{special} << " at " << at << " of " << length;
        EXPECT_EQ(ParseJsonString(json), text);
      }
    }
  }
}

TEST(JsonString, RandomBytesReadBackAsTheTextWithoutItsInvalidParts) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t left = random.Below(60); left > 0; --left) {
      // Mostly plain, else the special cases would be all there is.
      const uint64_t range = random.Below(4);
      text.push_back(static_cast<char>(range == 0 ? random.Below(256) : 0x20 + random.Below(95)));
    }
    const std::string json = JsonString(text);
    ASSERT_TRUE(IsValidUtf8(json));
    ASSERT_EQ(json.find('\n'), std::string::npos);
    ASSERT_EQ(ParseJsonString(json), ReplaceInvalidUtf8(text));
  }
}

TEST(JsonWriter, PutsCommasBetweenValuesAndNowhereElse) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Key("empty").BeginObject().EndObject();
  json.Key("none").BeginArray().EndArray();
  json.Key("list").BeginArray().Int(-1).Uint(2).BeginObject().EndObject().Null().EndArray();
  json.Key("a \"key\"").String("value");
  json.Key("raw").Raw(R"({"x":1})");
  json.Key("yes").Bool(true);
  json.Key("no").Bool(false);
  json.EndObject();
  EXPECT_EQ(out, R"({"empty":{},"none":[],"list":[-1,2,{},null],"a \"key\"":"value","raw":{"x":1},)"
                 R"("yes":true,"no":false})");
}

TEST(JsonWriter, AppendsToWhatIsThere) {
  std::string out = "data: ";
  JsonWriter(&out).String("x");
  EXPECT_EQ(out, "data: \"x\"");
}

TEST(JsonWriter, IntegersKeepTheirWholeRange) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  json.Int(std::numeric_limits<int64_t>::min());
  json.Uint(std::numeric_limits<uint64_t>::max());
  json.EndArray();
  EXPECT_EQ(out, "[-9223372036854775808,18446744073709551615]");
}

TEST(JsonWriter, WhatIsNoNumberIsNull) {
  EXPECT_EQ(Double(std::nan("")), "null");
  EXPECT_EQ(Double(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(Fixed(-std::numeric_limits<double>::infinity(), 2), "null");
}

TEST(JsonWriter, ADoubleIsWrittenShortAndReadsBackTheSame) {
  EXPECT_EQ(Double(0.1), "0.1");
  EXPECT_EQ(Double(1), "1");
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 1000; ++i) {
    const double value =
        std::ldexp(random.Unit() - 0.5, static_cast<int>(random.Below(1900)) - 950);
    ASSERT_EQ(std::strtod(Double(value).c_str(), nullptr), value);
  }
}

TEST(JsonWriter, AFixedDecimalHasItsDigitsWhateverTheSize) {
  EXPECT_EQ(Fixed(12.3456, 1), "12.3");
  EXPECT_EQ(Fixed(3, 3), "3.000");
  EXPECT_EQ(Fixed(2.5, 0), "2");
  EXPECT_EQ(Fixed(std::numeric_limits<double>::max(), 17).size(), 309u + 1 + 17);
}

}  // namespace
}  // namespace headrace
