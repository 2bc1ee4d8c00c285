// What this build is.
#ifndef HEADRACE_CLI_VERSION_H_
#define HEADRACE_CLI_VERSION_H_

namespace headrace {

// "0.1.0", from CMakeLists.txt.
const char* Version();
// "clang 19.1.7", for bug reports.
const char* Compiler();

}  // namespace headrace

#endif  // HEADRACE_CLI_VERSION_H_
