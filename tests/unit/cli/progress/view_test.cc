#include "cli/progress/view.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/progress/render.h"
#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/cli/progress/sample.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

// The part of a terminal that a live view needs: text, line ends, "up n", "erase right", "erase
// below", and the wrapping of lines that are too long. Anything else fails the test.
class FakeTerminal {
 public:
  explicit FakeTerminal(int columns) : columns_(columns) {}

  void Write(absl::string_view bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == '\x1b') {
        i = Escape(bytes, i);
      } else if (bytes[i] == '\n') {
        ++row_;
        column_ = 0;
        Row();
      } else if (bytes[i] == '\r') {
        column_ = 0;
      } else {
        Put(bytes[i]);
      }
    }
  }
  // The screen without blanks at the ends of lines and empty lines at its end.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines = rows_;
    for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }
  // As a terminal that does not rejoin what it wraps.
  void Narrow(int columns) {
    columns_ = columns;
    std::vector<std::string> wrapped;
    size_t cursor = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (i == row_) cursor = wrapped.size();
      std::string text = rows_[i].substr(0, rows_[i].find_last_not_of(' ') + 1);
      do {
        wrapped.push_back(text.substr(0, static_cast<size_t>(columns)));
        text.erase(0, static_cast<size_t>(columns));
      } while (!text.empty());
    }
    rows_ = std::move(wrapped);
    row_ = cursor;
  }

 private:
  std::string& Row() {
    if (rows_.size() <= row_) rows_.resize(row_ + 1);
    return rows_[row_];
  }
  void Put(char c) {
    if (column_ == static_cast<size_t>(columns_)) {
      ++row_;
      column_ = 0;
    }
    std::string& row = Row();
    if (row.size() <= column_) row.resize(column_ + 1, ' ');
    row[column_++] = c;
  }
  size_t Escape(absl::string_view bytes, size_t at) {
    const size_t end = bytes.find_first_of("AKJm", at);
    EXPECT_NE(end, absl::string_view::npos);
    const std::string number(bytes.substr(at + 2, end - at - 2));
    if (bytes[end] == 'A') {
      const size_t up = std::stoul(number);
      EXPECT_LE(up, row_) << "moved above the screen";
      row_ -= std::min(up, row_);
    } else if (bytes[end] == 'K') {
      // In the last column this would take the character there.
      Row().resize(std::min({Row().size(), column_, static_cast<size_t>(columns_ - 1)}));
    } else if (bytes[end] == 'J') {
      Row().resize(std::min(Row().size(), column_));
      rows_.resize(row_ + 1);
    }
    return end;
  }

  int columns_;
  std::vector<std::string> rows_{""};
  size_t row_ = 0;
  size_t column_ = 0;
};

class TtyViewTest : public ::testing::Test {
 protected:
  std::unique_ptr<ProgressView> Make() {
    ProgressOutput output;
    output.is_terminal = true;
    output.term = "xterm-256color";
    output.write = [this](absl::string_view bytes) { terminal_.Write(bytes); };
    output.size = [this] { return std::pair(columns_, 24); };
    return ProgressView::Make(ProgressMode::kAuto, std::move(output));
  }
  std::vector<std::string> Frame(const ProgressSnapshot& snapshot) const {
    FrameOptions options;
    options.columns = columns_ - 1;
    return RenderFrame(snapshot, options);
  }
  void Resize(int columns) {
    columns_ = columns;
    terminal_.Narrow(columns);
  }

  int columns_ = 80;
  FakeTerminal terminal_{80};
};

TEST_F(TtyViewTest, RedrawsInPlaceAlsoWhenTheFrameShrinks) {
  const auto view = Make();
  ProgressSnapshot snapshot = SampleSnapshot();
  view->Show(snapshot);
  EXPECT_EQ(terminal_.Lines(), Frame(snapshot));
  snapshot.models.clear();
  snapshot.failures.clear();
  snapshot.limited_by = "x";
  view->Show(snapshot);
  EXPECT_EQ(terminal_.Lines(), Frame(snapshot));
}

TEST_F(TtyViewTest, ALogLineGoesAboveTheFrameAndDoesNotTearIt) {
  const auto view = Make();
  const ProgressSnapshot snapshot = SampleSnapshot();
  HR_LOG(kInfo) << "before the first frame";
  view->Show(snapshot);
  HR_LOG(kWarning) << std::string(300, 'w') << " a line longer than the terminal";
  HR_LOG(kInfo) << "after";
  view->Show(snapshot);
  std::vector<std::string> lines = terminal_.Lines();
  const std::vector<std::string> frame = Frame(snapshot);
  ASSERT_GT(lines.size(), frame.size());
  EXPECT_EQ(
      std::vector<std::string>(lines.end() - static_cast<ptrdiff_t>(frame.size()), lines.end()),
      frame);
  lines.resize(lines.size() - frame.size());
  EXPECT_THAT(lines.front(), EndsWith("info before the first frame"));
  EXPECT_THAT(lines.back(), EndsWith("info after"));
  EXPECT_THAT(lines[lines.size() - 2], EndsWith("longer than the terminal"));
}

TEST_F(TtyViewTest, ANarrowerWindowLeavesNoTraceOfTheWiderFrame) {
  const auto view = Make();
  const ProgressSnapshot snapshot = SampleSnapshot();
  view->Show(snapshot);
  Resize(40);
  view->Show(snapshot);
  EXPECT_EQ(terminal_.Lines(), Frame(snapshot));
}

TEST_F(TtyViewTest, LogLinesOfManyThreadsLeaveOneWholeFrame) {
  const auto view = Make();
  const ProgressSnapshot snapshot = SampleSnapshot();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) HR_LOG(kInfo) << "line";
    });
  }
  for (int i = 0; i < 50; ++i) view->Show(snapshot);
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> lines = terminal_.Lines();
  const auto whole =
      static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
        return absl::EndsWith(line, " info line");
      }));
  EXPECT_EQ(whole, 200u);
  EXPECT_EQ(lines.size(), 200 + Frame(snapshot).size());
}

TEST_F(TtyViewTest, LogLinesGoToStandardErrorAgainAfterIt) {
  Make().reset();
  ::testing::internal::CaptureStderr();
  HR_LOG(kInfo) << "plain again";
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), EndsWith(" info plain again\n"));
}

std::vector<std::string> ShownAt(ProgressMode mode, const std::string& term, bool is_terminal,
                                 const std::vector<int>& seconds) {
  std::string text;
  ProgressOutput output;
  output.is_terminal = is_terminal;
  output.term = term;
  output.write = [&text](absl::string_view bytes) { absl::StrAppend(&text, bytes); };
  output.size = [] { return std::pair(80, 24); };
  const auto view = ProgressView::Make(mode, std::move(output));
  for (int second : seconds) {
    ProgressSnapshot snapshot;
    snapshot.job = "j";
    snapshot.elapsed = absl::Seconds(second);
    snapshot.finished = second == seconds.back();
    view->Show(snapshot);
  }
  std::vector<std::string> starts;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    starts.emplace_back(line.substr(0, line.find(' ')));
  }
  return starts;
}

TEST(PlainView, WritesALineEveryTenSecondsAndAtTheEnd) {
  EXPECT_THAT(ShownAt(ProgressMode::kPlain, "xterm", true, {0, 1, 5, 9, 10, 15, 19, 21, 22}),
              ElementsAre("[0s]", "[10s]", "[21s]", "[22s]"));
}

TEST(PlainView, IsChosenWithoutATerminalOrOnADumbOne) {
  EXPECT_THAT(ShownAt(ProgressMode::kAuto, "xterm", false, {0}), ElementsAre("[0s]"));
  EXPECT_THAT(ShownAt(ProgressMode::kAuto, "dumb", true, {0}), ElementsAre("[0s]"));
  EXPECT_THAT(ShownAt(ProgressMode::kAuto, "", true, {0}), ElementsAre("[0s]"));
}

TEST(JsonView, WritesAnObjectEverySecondAndAtTheEnd) {
  EXPECT_EQ(ShownAt(ProgressMode::kJson, "xterm", true, {0, 0, 1, 1, 2, 2}).size(), 4u);
}

TEST(NoView, WritesNothing) {
  EXPECT_TRUE(ShownAt(ProgressMode::kNone, "xterm", true, {0, 100}).empty());
}

TEST(ParseProgressMode, KnowsFiveWordsAndNamesThem) {
  EXPECT_EQ(
      ParseProgressMode("fancy").status(),
      absl::InvalidArgumentError("--progress: \"fancy\" is none of auto, tty, plain, json, none"));
  EXPECT_EQ(*ParseProgressMode("tty"), ProgressMode::kTty);
  EXPECT_EQ(*ParseProgressMode("none"), ProgressMode::kNone);
}

}  // namespace
}  // namespace headrace
