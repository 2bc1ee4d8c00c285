#include "worker/provider/sse.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace headrace::provider {
namespace {

struct Got {
  std::string type;
  std::string data;
  bool operator==(const Got&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Got& got) {
  return out << "{" << got.type << "|" << got.data << "}";
}

std::vector<Got> Parse(const std::vector<std::string>& pieces, SseParser* parser) {
  std::vector<Got> events;
  SseEvent event;
  for (const std::string& piece : pieces) {
    parser->Feed(piece);
    while (parser->Next(&event) == SseParser::Step::kEvent) {
      events.push_back({std::string(event.type), std::string(event.data)});
    }
  }
  return events;
}

// The events of `text`; the same for the whole text, for every cut in two, and byte by byte.
std::vector<Got> Events(const std::string& text) {
  SseParser whole;
  const std::vector<Got> events = Parse({text}, &whole);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    SseParser parser;
    EXPECT_EQ(Parse({text.substr(0, cut), text.substr(cut)}, &parser), events) << "cut at " << cut;
  }
  SseParser bytes;
  std::vector<std::string> pieces;
  for (char c : text) pieces.emplace_back(1, c);
  EXPECT_EQ(Parse(pieces, &bytes), events);
  EXPECT_EQ(bytes.comments(), whole.comments());
  return events;
}

using Expected = std::vector<Got>;

TEST(SseParser, ALineEndsWithLfCrOrCrlfMixedAtWill) {
  EXPECT_EQ(Events("data: a\n\ndata: b\n\n"), (Expected{{"", "a"}, {"", "b"}}));
  EXPECT_EQ(Events("data: a\r\n\r\ndata: b\r\n\r\n"), (Expected{{"", "a"}, {"", "b"}}));
  EXPECT_EQ(Events("data: a\r\rdata: b\r\r"), (Expected{{"", "a"}, {"", "b"}}));
  EXPECT_EQ(Events("data: a\r\n\rdata: b\n\r\n"), (Expected{{"", "a"}, {"", "b"}}));
}

TEST(SseParser, ACarriageReturnSplitFromItsLineFeedEndsOneLine) {
  SseParser parser;
  EXPECT_EQ(Parse({"data: a\r", "\ndata: b\r", "\n\r", "\n"}, &parser), (Expected{{"", "a\nb"}}));
}

TEST(SseParser, UnicodeLineSeparatorsAreText) {
  EXPECT_EQ(Events("data: a\xE2\x80\xA8"
                   "b\xE2\x80\xA9"
                   "c\xC2\x85"
                   "d\x0B\x0C\n\n"),
            (Expected{{"",
                       "a\xE2\x80\xA8"
                       "b\xE2\x80\xA9"
                       "c\xC2\x85"
                       "d\x0B\x0C"}}));
}

TEST(SseParser, ExactlyOneSpaceAfterTheColonIsDropped) {
  EXPECT_EQ(Events("data:x\n\ndata:  x\n\nevent:e\ndata: \n\n"),
            (Expected{{"", "x"}, {"", " x"}, {"e", ""}}));
}

TEST(SseParser, OnlyTheFirstColonSplitsALine) {
  EXPECT_EQ(Events("data: {\"k: v\": \"x: y\"}\n\n"), (Expected{{"", "{\"k: v\": \"x: y\"}"}}));
}

TEST(SseParser, CommentsAreCountedAndGiveNoEvent) {
  SseParser parser;
  EXPECT_EQ(Parse({": OPENROUTER PROCESSING\n\n: keep-alive\n\n:\n\ndata: x\n\n"}, &parser),
            (Expected{{"", "x"}}));
  EXPECT_EQ(parser.comments(), 3);
}

TEST(SseParser, ABlockWithoutADataLineIsNoEventAndLosesItsName) {
  EXPECT_EQ(Events("retry: 1000\n\nid: 7\n\nevent: keepalive\n\n\n\ndata: x\n\n"),
            (Expected{{"", "x"}}));
  EXPECT_EQ(Events("id: 7\ndata: a\n\n: ping\n\ndata: b\n\n"), (Expected{{"", "a"}, {"", "b"}}));
}

TEST(SseParser, AnEmptyDataLineIsAnEventWithEmptyText) {
  EXPECT_EQ(Events("data:\n\ndata\n\ndata\ndata\n\n"), (Expected{{"", ""}, {"", ""}, {"", "\n"}}));
}

TEST(SseParser, DataLinesAreJoinedWithLineFeeds) {
  EXPECT_EQ(Events("data: a\ndata: b\ndata:\n\n"), (Expected{{"", "a\nb\n"}}));
}

TEST(SseParser, FieldNamesAreCaseSensitiveAndUnpadded) {
  EXPECT_EQ(Events("Data: a\n data: b\ndata : c\nfoo: d\n\n"), (Expected{}));
}

TEST(SseParser, TheLastEventFieldNamesTheEvent) {
  EXPECT_EQ(Events("event: a\nevent: b\ndata: x\n\ndata: y\n\n"),
            (Expected{{"b", "x"}, {"", "y"}}));
}

TEST(SseParser, OneByteOrderMarkAtTheStartIsDropped) {
  EXPECT_EQ(Events("\xEF\xBB\xBF"
                   "data: x\n\n"),
            (Expected{{"", "x"}}));
  EXPECT_EQ(Events("\xEF\xBB\xBF\xEF\xBB\xBF"
                   "data: x\n\ndata: y\n\n"),
            (Expected{{"", "y"}}));
  EXPECT_EQ(Events("\xEF\xBB"
                   "data: x\n\ndata: y\n\n"),
            (Expected{{"", "y"}}));
}

TEST(SseParser, AnErrorFieldIsAnEventNamedError) {
  EXPECT_EQ(Events("error: {\"code\":500}\n\n"), (Expected{{"error", "{\"code\":500}"}}));
}

TEST(SseParser, FinishGivesTheEventWithoutItsBlankLine) {
  for (const std::string end : {"", "\n", "\r", "\r\n"}) {
    SseParser parser;
    EXPECT_EQ(Parse({"data: a\n\ndata: [DONE]" + end}, &parser), (Expected{{"", "a"}}));
    SseEvent event;
    ASSERT_TRUE(parser.Finish(&event));
    EXPECT_EQ(event.data, "[DONE]");
    EXPECT_FALSE(parser.Finish(&event));
  }
}

TEST(SseParser, AnEventInOnePieceIsNotCopied) {
  const std::string piece = "event: e\ndata: hello\n\n";
  SseParser parser;
  SseEvent event;
  parser.Feed(piece);
  ASSERT_EQ(parser.Next(&event), SseParser::Step::kEvent);
  EXPECT_EQ(event.data.data(), piece.data() + piece.find("hello"));
}

TEST(SseParser, ALineAboveTheLimitStopsTheParser) {
  SseParser parser;
  SseEvent event;
  const std::string piece(size_t{1} << 20, 'x');
  parser.Feed("data: ");
  EXPECT_EQ(parser.Next(&event), SseParser::Step::kNeedMore);
  for (int i = 0; i < 15; ++i) {
    parser.Feed(piece);
    ASSERT_EQ(parser.Next(&event), SseParser::Step::kNeedMore);
  }
  parser.Feed(piece);
  EXPECT_EQ(parser.Next(&event), SseParser::Step::kTooLarge);
}

TEST(SseParser, AnEventOfManyLinesAboveTheLimitStopsTheParser) {
  SseParser parser;
  SseEvent event;
  const std::string line = "data: " + std::string(size_t{1} << 20, 'x') + "\n";
  SseParser::Step step = SseParser::Step::kNeedMore;
  int lines = 0;
  while (step == SseParser::Step::kNeedMore && lines < 20) {
    parser.Feed(line);
    step = parser.Next(&event);
    ++lines;
  }
  EXPECT_EQ(step, SseParser::Step::kTooLarge);
  EXPECT_EQ(lines, 16);
}

}  // namespace
}  // namespace headrace::provider
