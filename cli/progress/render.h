// The three forms in which a run's progress is shown. Pure: a snapshot in, text out.
#ifndef HEADRACE_CLI_PROGRESS_RENDER_H_
#define HEADRACE_CLI_PROGRESS_RENDER_H_

#include <string>
#include <vector>

#include "coordinator/progress/progress.h"

namespace headrace {

struct FrameOptions {
  int columns = 80;    // no line is wider
  int rows = 24;       // there are at most rows - 1 lines
  bool color = false;  // ANSI colours, which take no columns
};

// The live view, one string per line without line end.
std::vector<std::string> RenderFrame(const ProgressSnapshot& snapshot, const FrameOptions& options);

// One line for a log, without line end.
std::string RenderPlainLine(const ProgressSnapshot& snapshot);

// One JSON object without line end; docs/progress.md lists its fields, which only grow.
std::string RenderJsonLine(const ProgressSnapshot& snapshot);

}  // namespace headrace

#endif  // HEADRACE_CLI_PROGRESS_RENDER_H_
