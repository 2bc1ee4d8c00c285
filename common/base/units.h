// Durations, counts and sizes as people write them in job files and flags.
#ifndef HEADRACE_COMMON_BASE_UNITS_H_
#define HEADRACE_COMMON_BASE_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace headrace {

// "120s", "500ms", "1m30s", "2h", "1.5s", "250us"; a bare "0" is zero; a unit is needed otherwise.
// Larger units stand before smaller ones. InvalidArgument, with the text, on anything else, on
// negative values, on parts of a nanosecond and past 10 years (of 365 days).
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// "1500", "10k", "5M", "2.5M", "1G": decimal multiples, the suffix in either case.
// InvalidArgument on signs, fractions that do not give an integer, and overflow of int64.
absl::StatusOr<int64_t> ParseCount(absl::string_view text);

// "64KiB", "16MB", "1GiB", "4096", "512B": bytes; KiB, MiB, GiB are powers of 1024, kB, MB, GB of
// 1000. InvalidArgument as for counts.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// Short and exact enough for a progress line: "1h02m", "3m20s", "12.4s", "850ms", "120us".
// Call it as headrace::FormatDuration: absl has one of the same name.
std::string FormatDuration(absl::Duration duration);
// "950", "12.3k", "5M", "1.25G".
std::string FormatCount(double count);
// "12,345", "-1,000".
std::string FormatGrouped(int64_t value);
// "512 B", "1.5 KiB", "3.2 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_UNITS_H_
