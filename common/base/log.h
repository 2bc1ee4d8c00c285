// Log lines on stderr and checks of our own invariants.
//
//   HR_LOG(kWarning) << "lease of batch " << id << " expired";
//   HR_CHECK(live_ == 0) << live_ << " children outlive their scope";
//
// Control characters in a message are escaped. A log line never holds a prompt, an answer or a key:
// Secret has no operator<<.
#ifndef HEADRACE_COMMON_BASE_LOG_H_
#define HEADRACE_COMMON_BASE_LOG_H_

#include <ostream>
#include <sstream>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"

namespace headrace {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

enum class LogFormat { kText, kJson };

// Lines below `level` are dropped. Thread-safe. Default: kInfo, text.
void SetLogLevel(LogLevel level);
void SetLogFormat(LogFormat format);

// Replaces stderr as the destination of whole lines (without line end); nullptr restores it. For
// the live terminal view, which must not be torn by log lines, and for tests. Thread-safe; the sink
// is called under the log's lock and must not log.
void SetLogSink(absl::AnyInvocable<void(LogLevel, absl::string_view line)> sink);

namespace internal {

bool LogEnabled(LogLevel level);

// Collects one line and writes it when destroyed; a fatal one then aborts the process.
class LogLine {
 public:
  LogLine(LogLevel level, const char* file, int line, bool fatal = false);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  const LogLevel level_;
  const char* const file_;
  const int line_;
  const bool fatal_;
  std::ostringstream stream_;
};

struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace internal
}  // namespace headrace

#define HR_LOG(level)                                                                      \
  !::headrace::internal::LogEnabled(::headrace::LogLevel::level)                           \
      ? (void)0                                                                            \
      : ::headrace::internal::Voidify() &                                                  \
            ::headrace::internal::LogLine(::headrace::LogLevel::level, __FILE__, __LINE__) \
                .stream()

// For our own bugs only; never on input, disk, network or peers.
#define HR_CHECK(condition)                                                               \
  (condition) ? (void)0                                                                   \
              : ::headrace::internal::Voidify() &                                         \
                    ::headrace::internal::LogLine(::headrace::LogLevel::kError, __FILE__, \
                                                  __LINE__, /*fatal=*/true)               \
                            .stream()                                                     \
                        << "check failed: " #condition " "

#endif  // HEADRACE_COMMON_BASE_LOG_H_
