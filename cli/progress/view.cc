#include "cli/progress/view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/progress/render.h"
#include "cli/progress/text_width.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace headrace {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(10);
constexpr absl::Duration kJsonInterval = absl::Seconds(1);
// Of a terminal that does not tell its size.
constexpr int kDefaultColumns = 80;
constexpr int kDefaultRows = 24;

void WriteStderr(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDERR_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads: progress is not worth an error
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::pair<int, int> StderrSize() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return {kDefaultColumns, kDefaultRows};
  }
  return {size.ws_col, size.ws_row};
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class NoView final : public ProgressView {
 public:
  void Show(const ProgressSnapshot&) override {}
};

// Lines from time to time.
class LineView final : public ProgressView {
 public:
  LineView(std::string (*render)(const ProgressSnapshot&), absl::Duration interval,
           ProgressOutput output)
      : render_(render), interval_(interval), output_(std::move(output)) {}

  void Show(const ProgressSnapshot& snapshot) override {
    if (!snapshot.finished && last_.has_value() && snapshot.elapsed < *last_ + interval_) return;
    last_ = snapshot.elapsed;
    output_.write(absl::StrCat(render_(snapshot), "\n"));
  }

 private:
  std::string (*const render_)(const ProgressSnapshot&);
  const absl::Duration interval_;
  ProgressOutput output_;
  std::optional<absl::Duration> last_;
};

// The frame that is redrawn in place. The cursor rests at the start of the line below it.
class TtyView final : public ProgressView {
 public:
  explicit TtyView(ProgressOutput output) : output_(std::move(output)) {
    SetLogSink([this](LogLevel, absl::string_view line) { ShowLogLine(line); });
  }
  ~TtyView() override { SetLogSink(nullptr); }

  void Show(const ProgressSnapshot& snapshot) override {
    MutexLock lock(&mutex_);
    FrameOptions options;
    std::tie(options.columns, options.rows) = output_.size();
    options.color = output_.color;
    std::string out = Rewind(options.columns);
    // A line that fills the last column leaves the cursor on it, and erasing would take that
    // column.
    options.columns = std::max(1, options.columns - 1);
    frame_ = RenderFrame(snapshot, options);
    absl::StrAppend(&out, FrameText());
    output_.write(out);
  }

 private:
  // On any thread.
  void ShowLogLine(absl::string_view line) {
    MutexLock lock(&mutex_);
    std::string out = Rewind(output_.size().first);
    absl::StrAppend(&out, "\x1b[J", line, "\n", FrameText());
    output_.write(out);
  }

  // Moves to the start of the frame. A terminal that became narrower has wrapped its lines.
  std::string Rewind(int columns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int rows = 0;
    for (const std::string& line : frame_) {
      rows += std::max(1, (VisibleWidth(line) + columns - 1) / std::max(1, columns));
    }
    return rows == 0 ? "" : absl::StrCat("\x1b[", rows, "A\r");
  }

  // Each line erases what is right of it, the last what is below the frame.
  std::string FrameText() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string out;
    for (const std::string& line : frame_) absl::StrAppend(&out, line, "\x1b[K\n");
    absl::StrAppend(&out, "\x1b[J");
    return out;
  }

  static int VisibleWidth(absl::string_view line) {
    std::string visible;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\x1b') {
        i = std::min(line.find('m', i), line.size());
      } else {
        visible.push_back(line[i]);
      }
    }
    return TextWidth(visible);
  }

  Mutex mutex_;
  ProgressOutput output_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> frame_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<ProgressMode> ParseProgressMode(absl::string_view text) {
  if (text == "auto") return ProgressMode::kAuto;
  if (text == "tty") return ProgressMode::kTty;
  if (text == "plain") return ProgressMode::kPlain;
  if (text == "json") return ProgressMode::kJson;
  if (text == "none") return ProgressMode::kNone;
  return absl::InvalidArgumentError(
      absl::StrCat("--progress: \"", text, "\" is none of auto, tty, plain, json, none"));
}

ProgressOutput StderrOutput(bool no_color) {
  ProgressOutput output;
  output.is_terminal = isatty(STDERR_FILENO) == 1;
  output.term = Environment("TERM");
  output.color = !no_color && Environment("NO_COLOR").empty() && output.term != "dumb";
  output.write = WriteStderr;
  output.size = StderrSize;
  return output;
}

std::unique_ptr<ProgressView> ProgressView::Make(ProgressMode mode, ProgressOutput output) {
  if (mode == ProgressMode::kAuto) {
    const bool live = output.is_terminal && output.term != "dumb" && !output.term.empty();
    mode = live ? ProgressMode::kTty : ProgressMode::kPlain;
  }
  switch (mode) {
    case ProgressMode::kTty:
      return std::make_unique<TtyView>(std::move(output));
    case ProgressMode::kJson:
      return std::make_unique<LineView>(RenderJsonLine, kJsonInterval, std::move(output));
    case ProgressMode::kNone:
      return std::make_unique<NoView>();
    case ProgressMode::kAuto:
    case ProgressMode::kPlain:
      break;
  }
  return std::make_unique<LineView>(RenderPlainLine, kPlainInterval, std::move(output));
}

}  // namespace headrace
