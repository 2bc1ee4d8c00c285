#include "coordinator/dataset/prefix_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RenderedRow User(std::string text) {
  RenderedRow row;
  row.user = std::move(text);
  return row;
}

std::vector<uint32_t> OrderOf(const std::vector<std::string>& texts) {
  PrefixOrder order;
  for (const std::string& text : texts) order.Add(User(text));
  return order.Finish();
}

std::string Document(char c, size_t bytes) { return std::string(bytes, c); }

TEST(PrefixOrder, RowsThatShareADocumentStandTogetherInTheOrderOfTheFile) {
  const std::string a = Document('a', 3000);
  const std::string b = Document('b', 3000);
  EXPECT_THAT(OrderOf({a + "1", b + "1", "short", a + "2", b + "2", a + "3"}),
              ElementsAre(0, 3, 5, 1, 4, 2));
}

TEST(PrefixOrder, ALongerCommonPrefixStandsCloserThanAShorterOne) {
  const std::string system = Document('s', 2000);
  const std::string a = system + Document('a', 3000);
  const std::string b = system + Document('b', 3000);
  EXPECT_THAT(OrderOf({a + "1", b + "1", a + "2", system + "x", b + "2"}),
              ElementsAre(0, 2, 1, 4, 3));
}

TEST(PrefixOrder, LessThanAKibibyteInCommonChangesNothing) {
  const std::string a = Document('a', 1000);
  const std::string b = Document('b', 1000);
  EXPECT_THAT(OrderOf({a + "1" + Document('x', 500), b, a + "2" + Document('y', 500), b}),
              IsEmpty());
}

TEST(PrefixOrder, WhatIsInOrderAlreadyIsTheOrderOfTheFile) {
  const std::string a = Document('a', 3000);
  EXPECT_THAT(OrderOf({a + "1", a + "2", Document('b', 3000)}), IsEmpty());
  EXPECT_THAT(OrderOf({}), IsEmpty());
}

TEST(PrefixOrder, TheSystemMessageIsAPartOfThePrefix) {
  PrefixOrder order;
  for (const char* c : {"a", "b", "a"}) {
    RenderedRow row;
    row.system = Document(c[0], 2000);
    row.user = "same";
    order.Add(row);
  }
  EXPECT_THAT(order.Finish(), ElementsAre(0, 2, 1));
}

TEST(PrefixOrder, MessagesAndBodiesCountLikePrompts) {
  for (std::string RenderedRow::* part : {&RenderedRow::messages_json, &RenderedRow::body}) {
    PrefixOrder order;
    for (char c : {'a', 'b', 'a'}) {
      RenderedRow row;
      row.*part = Document(c, 2000);
      order.Add(row);
    }
    EXPECT_THAT(order.Finish(), ElementsAre(0, 2, 1));
  }
}

TEST(PrefixOrder, BadRowsKeepTheirPlace) {
  PrefixOrder order;
  for (char c : {'a', '-', 'b', 'a'}) {
    RenderedRow row;
    if (c == '-') {
      row.error = "bad";
    } else {
      row.user = Document(c, 2000);
    }
    order.Add(row);
  }
  EXPECT_THAT(order.Finish(), ElementsAre(0, 3, 1, 2));
}

// However rows are shuffled: each once, each document in one piece, in the order of the file
// within.
TEST(PrefixOrder, AnyShuffleGivesEachDocumentInOnePiece) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int round = 0; round < 50; ++round) {
    const uint64_t documents = 1 + random.Below(20);
    std::vector<uint64_t> of_row(1 + random.Below(300));
    std::vector<std::string> texts;
    for (uint64_t& document : of_row) {
      document = random.Below(documents);
      // Documents of many lengths, which begin differently.
      std::string text = absl::StrCat(document, ":");
      text.resize(1100 + document * 700, 'x');
      texts.push_back(absl::StrCat(text, " question ", texts.size()));
    }
    std::vector<uint32_t> order = OrderOf(texts);
    if (order.empty()) {
      order.resize(of_row.size());
      std::iota(order.begin(), order.end(), 0);
    }
    ASSERT_EQ(order.size(), of_row.size());
    std::vector<bool> left(documents, false);
    for (size_t i = 1; i < order.size(); ++i) {
      const uint64_t before = of_row[order[i - 1]];
      const uint64_t now = of_row[order[i]];
      if (before == now) {
        EXPECT_LT(order[i - 1], order[i]);
      } else {
        left[before] = true;
        EXPECT_FALSE(left[now]) << "document " << now << " in two pieces";
      }
    }
  }
}

TEST(PrefixOrder, ADatasetInThatOrderGivesEachRowAsInTheFile) {
  TestFiles files;
  for (const bool csv : {false, true}) {
    std::string content = csv ? "d,q\n" : "";
    for (int i = 0; i < 200; ++i) {
      const std::string document(1500, static_cast<char>('a' + i % 7));
      absl::StrAppend(&content, csv ? "\"" : "{\"d\":\"", document, csv ? "\n\"," : "\",\"q\":", i,
                      csv ? "\n\n" : "}\n");
    }
    DatasetJob job;
    job.path = files.Write("d", content);
    job.prompt = "{{d}} {{q}}";
    const ReadResult plain = ReadAll(job);
    ASSERT_TRUE(plain.status.ok()) << plain.status;
    EXPECT_THAT(plain.info.order, IsEmpty());
    job.order = RowOrdering::kPromptCache;
    const auto dataset = Dataset::Open(job);
    ASSERT_TRUE(dataset.ok());
    const auto info = (*dataset)->Scan(files.dir());
    ASSERT_TRUE(info.ok()) << info.status();
    ASSERT_EQ(info->order.size(), 200u);
    EXPECT_EQ(info->order[1], 7u);
    EXPECT_TRUE((*dataset)->seekable());
    const auto cursor = (*dataset)->NewCursor();
    ASSERT_TRUE(cursor.ok());
    for (uint32_t row : info->order) {
      const auto read = (*cursor)->ReadAt(RowIndex(row));
      ASSERT_TRUE(read.ok() && read->has_value());
      EXPECT_EQ((*read)->row, RowIndex(row));
      EXPECT_EQ((*read)->line, plain.rows[row].line);
      EXPECT_EQ((*read)->user, plain.rows[row].user);
    }
  }
}

}  // namespace
}  // namespace headrace
