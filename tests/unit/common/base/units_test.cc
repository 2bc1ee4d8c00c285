#include "common/base/units.h"

#include <limits>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace headrace {
namespace {

using absl::InvalidArgumentError;
using absl::StatusCode;

TEST(ParseDuration, RefusesWhatIsNoDuration) {
  for (const char* text :
       {"",    " ",     "5",    "s",  "-5s",  "+5s",  "5 s",  "5s ", "5S",  "1.s",
        ".5s", "1..5s", "1e3s", "5x", "1s1s", "1s1m", "0x5s", "5sm", "1.5", "5ss"}) {
    EXPECT_EQ(ParseDuration(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseDuration("soon").status(),
            InvalidArgumentError("\"soon\" is no duration like 120s, 500ms or 1m30s"));
}

TEST(ParseDuration, RefusesPartsOfANanosecondAndMoreThanTenYears) {
  EXPECT_EQ(ParseDuration("0.5ns").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseDuration("87601h").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseDuration("87600h1ns").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseDuration("99999999999999999999999h").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseDuration("87600h").value(), absl::Hours(87600));
}

TEST(ParseDuration, ReadsWhatPeopleWrite) {
  EXPECT_EQ(ParseDuration("0").value(), absl::ZeroDuration());
  EXPECT_EQ(ParseDuration("0s").value(), absl::ZeroDuration());
  EXPECT_EQ(ParseDuration("120s").value(), absl::Seconds(120));
  EXPECT_EQ(ParseDuration("500ms").value(), absl::Milliseconds(500));
  EXPECT_EQ(ParseDuration("250us").value(), absl::Microseconds(250));
  EXPECT_EQ(ParseDuration("1m30s").value(), absl::Seconds(90));
  EXPECT_EQ(ParseDuration("2h").value(), absl::Hours(2));
  EXPECT_EQ(ParseDuration("1h1m1s1ms1us1ns").value(), absl::Nanoseconds(3'661'001'001'001));
  EXPECT_EQ(ParseDuration("1.5s").value(), absl::Milliseconds(1500));
}

TEST(ParseCount, RefusesWhatIsNoCount) {
  for (const char* text : {"", "k", "-1", "+1", "1 k", "1kk", "0x10", "1e6", "ten", "1,000", "1.5",
                           "1.0005k", "1.", ".5k", "9223372036854775808", "9223372036854775.808k",
                           "10000000000G", "99999999999999999999999999999999999999999"}) {
    EXPECT_EQ(ParseCount(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseCount("many").status(),
            InvalidArgumentError("\"many\" is no count like 1500, 10k, 5M or 1G"));
}

TEST(ParseCount, ReadsDecimalMultiplesExactly) {
  EXPECT_EQ(ParseCount("0").value(), 0);
  EXPECT_EQ(ParseCount("1500").value(), 1500);
  EXPECT_EQ(ParseCount("10k").value(), 10'000);
  EXPECT_EQ(ParseCount("5M").value(), 5'000'000);
  EXPECT_EQ(ParseCount("5m").value(), 5'000'000);
  EXPECT_EQ(ParseCount("2.5M").value(), 2'500'000);
  EXPECT_EQ(ParseCount("1.005k").value(), 1005);
  EXPECT_EQ(ParseCount("3.0").value(), 3);
  EXPECT_EQ(ParseCount("1G").value(), 1'000'000'000);
  EXPECT_EQ(ParseCount("9223372036854775807").value(), std::numeric_limits<int64_t>::max());
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "KiB", "-1B", "1.5", "1.5B", "64 KiB", "64Ki", "1PiB"}) {
    EXPECT_EQ(ParseBytes(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseBytes, KnowsBinaryAndDecimalMultiples) {
  EXPECT_EQ(ParseBytes("4096").value(), 4096);
  EXPECT_EQ(ParseBytes("512B").value(), 512);
  EXPECT_EQ(ParseBytes("64KiB").value(), 65'536);
  EXPECT_EQ(ParseBytes("64kB").value(), 64'000);
  EXPECT_EQ(ParseBytes("16MB").value(), 16'000'000);
  EXPECT_EQ(ParseBytes("1GiB").value(), 1'073'741'824);
  EXPECT_EQ(ParseBytes("1.5GiB").value(), 1'610'612'736);
}

TEST(ParseUnits, QuotesOnlyTheStartOfALongText) {
  const absl::Status status = ParseCount(std::string(5000, 'x')).status();
  EXPECT_LT(status.message().size(), 120u);
}

TEST(FormatDuration, IsShortAtEverySize) {
  const std::pair<absl::Duration, const char*> cases[] = {
      {absl::ZeroDuration(), "0s"},          {absl::Nanoseconds(400), "0us"},
      {absl::Microseconds(120), "120us"},    {absl::Milliseconds(850), "850ms"},
      {absl::Milliseconds(12'400), "12.4s"}, {absl::Seconds(12), "12s"},
      {absl::Seconds(200), "3m20s"},         {absl::Seconds(3720), "1h02m"},
      {absl::Hours(100), "100h00m"},         {-absl::Seconds(5), "-5s"},
      {absl::InfiniteDuration(), "inf"},
  };
  for (const auto& [duration, text] : cases) EXPECT_EQ(headrace::FormatDuration(duration), text);
}

TEST(FormatDuration, RoundingNeverShowsSixtySecondsOrAThousandMilliseconds) {
  EXPECT_EQ(headrace::FormatDuration(absl::Microseconds(999'600)), "1s");
  EXPECT_EQ(headrace::FormatDuration(absl::Milliseconds(59'960)), "1m00s");
  EXPECT_EQ(headrace::FormatDuration(absl::Milliseconds(3'599'600)), "1h00m");
  EXPECT_EQ(headrace::FormatDuration(absl::Nanoseconds(999'600)), "1ms");
}

TEST(FormatCount, HasThreeDigitsAtMost) {
  const std::pair<double, const char*> cases[] = {
      {0, "0"},          {950, "950"},     {12'345, "12.3k"},    {5e6, "5M"},
      {1.25e9, "1.25G"}, {999'999, "1M"},  {999.4, "999"},       {2.5, "2.5"},
      {99'960, "100k"},  {-1500, "-1.5k"}, {3'141'592, "3.14M"},
  };
  for (const auto& [count, text] : cases) EXPECT_EQ(FormatCount(count), text);
  EXPECT_EQ(FormatCount(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(FormatBytes, UsesPowersOf1024) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(1'048'575), "1 MiB");
  EXPECT_EQ(FormatBytes(3'435'973'837), "3.2 GiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "8 EiB");
}

TEST(FormatGrouped, ThousandsAreSetApart) {
  EXPECT_EQ(FormatGrouped(0), "0");
  EXPECT_EQ(FormatGrouped(999), "999");
  EXPECT_EQ(FormatGrouped(1000), "1,000");
  EXPECT_EQ(FormatGrouped(-100), "-100");
  EXPECT_EQ(FormatGrouped(-1'234'567), "-1,234,567");
}

}  // namespace
}  // namespace headrace
