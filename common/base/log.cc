#include "common/base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/json_writer.h"
#include "common/base/mutex.h"

namespace headrace {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kText};

struct Sink {
  Mutex mutex;
  absl::AnyInvocable<void(LogLevel, absl::string_view)> write ABSL_GUARDED_BY(mutex);
};

Sink& TheSink() {
  static Sink* const sink = new Sink;  // Never destroyed: threads may log during exit.
  return *sink;
}

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// `message` with control characters escaped, so that text of a peer can neither forge a line nor
// drive the terminal.
std::string OneLine(absl::string_view message) {
  std::string out;
  out.reserve(message.size());
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out.append("\\n");
    } else if (byte < 0x20 || byte == 0x7f) {
      out.append(absl::StrFormat("\\x%02x", byte));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string FormatLine(LogLevel level, const char* file, int line, absl::string_view message) {
  const std::string now =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
  std::string out;
  if (g_format.load(std::memory_order_relaxed) == LogFormat::kJson) {
    JsonWriter json(&out);
    json.BeginObject();
    json.Key("ts").String(now);
    json.Key("level").String(LevelName(level));
    json.Key("msg").String(message);
    json.Key("source").String(absl::StrCat(file, ":", line));
    json.EndObject();
    return out;
  }
  return absl::StrCat(now, " ", LevelName(level), " ", OneLine(message));
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

void SetLogFormat(LogFormat format) { g_format.store(format, std::memory_order_relaxed); }

void SetLogSink(absl::AnyInvocable<void(LogLevel, absl::string_view line)> sink) {
  MutexLock lock(&TheSink().mutex);
  TheSink().write = std::move(sink);
}

namespace internal {

bool LogEnabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

LogLine::LogLine(LogLevel level, const char* file, int line, bool fatal)
    : level_(level), file_(file), line_(line), fatal_(fatal) {}

LogLine::~LogLine() {
  std::string text = stream_.str();
  if (fatal_) text = absl::StrCat(file_, ":", line_, ": ", text);
  std::string out = FormatLine(level_, file_, line_, text);
  {
    Sink& sink = TheSink();
    MutexLock lock(&sink.mutex);
    if (sink.write && !fatal_) {
      sink.write(level_, out);
    } else {
      out.push_back('\n');
      std::fwrite(out.data(), 1, out.size(), stderr);
    }
  }
  if (fatal_) std::abort();
}

}  // namespace internal
}  // namespace headrace
