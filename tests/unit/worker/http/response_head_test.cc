#include "worker/http/response_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::http {
namespace {

using Event = ResponseHead::Event;
using testing::ElementsAre;
using testing::Pair;

TEST(ResponseHead, AFoldedLineContinuesTheOneBefore) {
  ResponseHead head;
  EXPECT_EQ(head.AddLine("HTTP/1.1 200 OK\r\n"), Event::kMore);
  EXPECT_EQ(head.AddLine("A: b\r\n"), Event::kMore);
  EXPECT_EQ(head.AddLine("\t c \r\n"), Event::kMore);
  EXPECT_EQ(head.AddLine("\r\n"), Event::kHeaders);
  EXPECT_THAT(head.headers(), ElementsAre(Pair("a", "b c")));
}

TEST(ResponseHead, TheContentLengthCountsOnlyWithoutTransferEncoding) {
  ResponseHead plain;
  plain.AddLine("HTTP/1.1 200 OK\r\n");
  plain.AddLine("Content-Length: 12\r\n");
  plain.AddLine("\r\n");
  EXPECT_EQ(plain.content_length(), 12);
  ResponseHead chunked;
  chunked.AddLine("HTTP/1.1 200 OK\r\n");
  chunked.AddLine("Content-Length: 12\r\n");
  chunked.AddLine("Transfer-Encoding: chunked\r\n");
  chunked.AddLine("\r\n");
  EXPECT_FALSE(chunked.content_length().has_value());
}

TEST(ResponseHead, ABrokenLineIsBad) {
  for (const char* line : {"no colon here\r\n", ": no name\r\n"}) {
    ResponseHead head;
    head.AddLine("HTTP/1.1 200 OK\r\n");
    EXPECT_EQ(head.AddLine(line), Event::kBad) << line;
    EXPECT_FALSE(head.problem().empty());
  }
  ResponseHead head;
  EXPECT_EQ(head.AddLine("HTTP/1.1 abc\r\n"), Event::kBad);
}

TEST(ResponseHead, EndlessInterimResponsesAreBad) {
  ResponseHead head;
  Event event = Event::kMore;
  for (int i = 0; i < 100'000 && event == Event::kMore; ++i) {
    event = head.AddLine("HTTP/1.1 102 Processing\r\n");
    if (event == Event::kMore) event = head.AddLine("\r\n");
  }
  EXPECT_EQ(event, Event::kBad);
}

TEST(ResponseHead, TrailersChangeNothing) {
  ResponseHead head;
  head.AddLine("HTTP/1.1 200 OK\r\n");
  head.AddLine("\r\n");
  EXPECT_EQ(head.AddLine("x: y\r\n"), Event::kMore);
  EXPECT_EQ(head.AddLine("\r\n"), Event::kMore);
  EXPECT_EQ(head.status(), 200);
  EXPECT_TRUE(head.headers().empty());
}

}  // namespace
}  // namespace headrace::http
