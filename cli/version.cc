#include "cli/version.h"

#define HR_STRING2(x) #x
#define HR_STRING(x) HR_STRING2(x)

namespace headrace {

const char* Version() { return HEADRACE_VERSION; }

const char* Compiler() {
#if defined(__clang__)
  return "clang " HR_STRING(__clang_major__) "." HR_STRING(__clang_minor__) "." HR_STRING(
      __clang_patchlevel__);
#else
  return "gcc " HR_STRING(__GNUC__) "." HR_STRING(__GNUC_MINOR__) "." HR_STRING(
      __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace headrace
