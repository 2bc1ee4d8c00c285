// How many terminal columns a text takes, and how to make it fit.
#ifndef HEADRACE_CLI_PROGRESS_TEXT_WIDTH_H_
#define HEADRACE_CLI_PROGRESS_TEXT_WIDTH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace headrace {

// Columns of `text`, which must hold no control characters: two for East Asian wide characters and
// emoji, none for combining marks, one for the rest. An approximation of UAX 11 by ranges, which is
// what terminals do.
int TextWidth(absl::string_view text);

// `text` on one line: control characters and invalid UTF-8 replaced, and cut to `columns`, ending
// in
// "~" if something was cut.
std::string FitText(absl::string_view text, int columns);

}  // namespace headrace

#endif  // HEADRACE_CLI_PROGRESS_TEXT_WIDTH_H_
