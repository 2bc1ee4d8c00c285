#include "common/outcome/result_fields.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

ResultLine FullLine() {
  ResultLine line;
  line.item = ItemId(7);
  line.row = RowIndex(3);
  line.model = "m \"x\"";
  line.custom_id = "007";
  line.error_class = ErrorClass::kContentFilter;
  line.error_message =
      "bl\xC3\xB6"
      "cked\n";
  line.http_status = 200;
  line.request_id = "r";
  line.body = R"({"a": [1,{"headrace":"}"}], "b":"\u00e9"})";
  line.finish_reason = "content_filter";
  line.expected = "42";
  line.attempts = 3;
  line.possibly_billed = 1;
  line.pass = 2;
  line.usage = {.prompt_tokens = 1,
                .completion_tokens = 2,
                .cached_tokens = 3,
                .cache_write_tokens = 4,
                .reasoning_tokens = 5};
  line.times = {.queue = absl::Microseconds(1'001),
                .connect = absl::Microseconds(2),
                .first_byte = absl::Microseconds(3'003),
                .first_token = absl::Microseconds(4'004),
                .network = absl::Microseconds(5'005),
                .total = absl::Microseconds(3'600'000'006),
                .read_tick = absl::Microseconds(7)};
  line.worker = "w";
  line.batch = BatchId(9);
  line.started = absl::FromUnixMillis(1'700'000'000'123);
  line.flags = "no_done_marker";
  return line;
}

std::string Written(const ResultLine& line) {
  std::string out;
  AppendResultLine(line, &out);
  return out;
}

TEST(ResultLineParser, WhatIsNotALineIsInvalid) {
  ResultLineParser parser;
  ResultFields fields;
  for (const char* text :
       {"", "{", "[]", "7", R"({"custom_id":7})", R"({"headrace":[]})",
        R"({"headrace":{"item":"7"}})", R"({"headrace":{"item":7}} x)",
        R"({"response":{"status_code":"200"}})", R"({"headrace":{"started":"noon"}})"}) {
    EXPECT_EQ(parser.Parse(text, &fields).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ResultLineParser, GivesBackEveryField) {
  const ResultLine line = FullLine();
  ResultLineParser parser;
  ResultFields fields;
  ASSERT_EQ(parser.Parse(Written(line), &fields), absl::OkStatus());
  EXPECT_EQ(fields.item, line.item);
  EXPECT_EQ(fields.row, line.row);
  EXPECT_EQ(fields.model, line.model);
  EXPECT_EQ(fields.custom_id, line.custom_id);
  EXPECT_EQ(fields.status, "content_filter");
  EXPECT_EQ(fields.error_class, line.error_class);
  EXPECT_EQ(fields.error_message, line.error_message);
  EXPECT_EQ(fields.http_status, line.http_status);
  EXPECT_EQ(fields.request_id, line.request_id);
  EXPECT_EQ(fields.body, line.body);
  EXPECT_EQ(fields.finish_reason, line.finish_reason);
  EXPECT_EQ(fields.expected, line.expected);
  EXPECT_EQ(fields.attempts, line.attempts);
  EXPECT_EQ(fields.possibly_billed, line.possibly_billed);
  EXPECT_EQ(fields.pass, line.pass);
  EXPECT_EQ(fields.usage.prompt_tokens, line.usage.prompt_tokens);
  EXPECT_EQ(fields.usage.completion_tokens, line.usage.completion_tokens);
  EXPECT_EQ(fields.usage.cached_tokens, line.usage.cached_tokens);
  EXPECT_EQ(fields.usage.cache_write_tokens, line.usage.cache_write_tokens);
  EXPECT_EQ(fields.usage.reasoning_tokens, line.usage.reasoning_tokens);
  EXPECT_EQ(fields.times.queue, line.times.queue);
  EXPECT_EQ(fields.times.connect, line.times.connect);
  EXPECT_EQ(fields.times.first_byte, line.times.first_byte);
  EXPECT_EQ(fields.times.first_token, line.times.first_token);
  EXPECT_EQ(fields.times.network, line.times.network);
  EXPECT_EQ(fields.times.total, line.times.total);
  EXPECT_EQ(fields.times.read_tick, line.times.read_tick);
  EXPECT_EQ(fields.worker, line.worker);
  EXPECT_EQ(fields.batch, line.batch);
  EXPECT_EQ(fields.started, line.started);
  EXPECT_EQ(fields.flags, line.flags);
}

TEST(ResultLineParser, NothingOfOneLineLeaksIntoTheNext) {
  ResultLineParser parser;
  ResultFields fields;
  ASSERT_EQ(parser.Parse(Written(FullLine()), &fields), absl::OkStatus());
  ResultLine bare;
  bare.item = ItemId(8);
  ASSERT_EQ(parser.Parse(Written(bare), &fields), absl::OkStatus());
  EXPECT_EQ(fields.item, ItemId(8));
  EXPECT_EQ(fields.status, "ok");
  EXPECT_EQ(fields.error_class, ErrorClass::kNone);
  EXPECT_EQ(fields.http_status, 0);
  EXPECT_EQ(fields.usage.prompt_tokens, std::nullopt);
  EXPECT_EQ(fields.times.first_token, std::nullopt);
  for (const std::string* text :
       {&fields.model, &fields.custom_id, &fields.error_message, &fields.request_id, &fields.body,
        &fields.finish_reason, &fields.expected, &fields.worker, &fields.flags}) {
    EXPECT_EQ(*text, "");
  }
}

TEST(ResultLineParser, ABodyOfAnyJsonTypeIsKeptAsItIs) {
  ResultLineParser parser;
  ResultFields fields;
  for (const char* body : {"[1, 2]", "\"text\"", "12.50", "true", "{}"}) {
    ResultLine line;
    line.http_status = 200;
    line.body = body;
    ASSERT_EQ(parser.Parse(Written(line), &fields), absl::OkStatus()) << body;
    EXPECT_EQ(fields.body, body);
  }
}

TEST(ResultLineParser, UnknownKeysAreIgnored) {
  ResultLineParser parser;
  ResultFields fields;
  ASSERT_EQ(parser.Parse(R"({"new":{"item":1},"headrace":{"status":"sunspots","x":[{}],"item":2}})",
                         &fields),
            absl::OkStatus());
  EXPECT_EQ(fields.item, ItemId(2));
  EXPECT_EQ(fields.status, "sunspots");
  EXPECT_EQ(fields.error_class, ErrorClass::kInternal);
}

}  // namespace
}  // namespace headrace
