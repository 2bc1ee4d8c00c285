// Shows a run's progress on a terminal or in a log, beside the log lines of the process.
#ifndef HEADRACE_CLI_PROGRESS_VIEW_H_
#define HEADRACE_CLI_PROGRESS_VIEW_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/progress/progress.h"

namespace headrace {

enum class ProgressMode { kAuto, kTty, kPlain, kJson, kNone };

// InvalidArgument on anything but auto, tty, plain, json and none.
absl::StatusOr<ProgressMode> ParseProgressMode(absl::string_view text);

// Where a view writes. Tests give their own.
struct ProgressOutput {
  bool is_terminal = false;
  std::string term;  // $TERM
  bool color = false;
  // Writes whole bytes at once; never blocks for long.
  absl::AnyInvocable<void(absl::string_view)> write;
  // Columns and rows now; asked before each frame, so a resized window needs no signal.
  absl::AnyInvocable<std::pair<int, int>()> size;
};

// Standard error, with colours unless `no_color`, NO_COLOR (no-color.org) or TERM=dumb say no.
ProgressOutput StderrOutput(bool no_color);

class ProgressView {
 public:
  virtual ~ProgressView() = default;

  // The calls of one run come from one thread, some times a second; each view shows them as often
  // as it likes (a frame each time; one line every 10 s of snapshot.elapsed), and always one that
  // is `finished`.
  virtual void Show(const ProgressSnapshot& snapshot) = 0;

  // kAuto is the live view on a terminal that can move its cursor, else plain lines. While a live
  // view exists, log lines go through it (SetLogSink), so that they do not tear it.
  static std::unique_ptr<ProgressView> Make(ProgressMode mode, ProgressOutput output);
};

}  // namespace headrace

#endif  // HEADRACE_CLI_PROGRESS_VIEW_H_
