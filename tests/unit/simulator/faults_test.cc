#include "simulator/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "simulator/options.h"

namespace headrace::simulator {
namespace {

using testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(ParseFault, AnUnknownNameIsAnErrorThatNamesTheNearestAndAllKnown) {
  const auto result = ParseFault("split-utf=0.1");
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(result.status()), HasSubstr("did you mean \"split-utf8\"?"));
  for (const FaultInfo& info : AllFaults()) {
    EXPECT_THAT(Text(result.status()), HasSubstr(std::string(info.name)));
  }
}

TEST(ParseFault, ARateIsNeededAndMustBeAShare) {
  EXPECT_THAT(Text(ParseFault("503").status()), HasSubstr("has no rate: write 503=0.05"));
  EXPECT_THAT(Text(ParseFault("503=often").status()), HasSubstr("is no number"));
  EXPECT_THAT(Text(ParseFault("503=1.5").status()), HasSubstr("must be in [0, 1]"));
  EXPECT_THAT(Text(ParseFault("503=-0.1").status()), HasSubstr("must be in [0, 1]"));
  EXPECT_THAT(Text(ParseFault("503=nan").status()), HasSubstr("must be in [0, 1]"));
}

TEST(ParseFault, ReadsSharesAndPercentages) {
  ASSERT_TRUE(ParseFault("503=0.25").ok());
  EXPECT_EQ(ParseFault("503=0.25")->fault, Fault::k503);
  EXPECT_DOUBLE_EQ(ParseFault("503=0.25")->rate, 0.25);
  EXPECT_DOUBLE_EQ(ParseFault("goaway-hard=5%")->rate, 0.05);
}

TEST(Faults, EveryFaultHasItsOwnNameInKebabCaseAndAMeaning) {
  std::set<std::string> names;
  for (size_t i = 1; i < static_cast<size_t>(Fault::kCount); ++i) {
    const FaultInfo& info = GetFaultInfo(static_cast<Fault>(i));
    ASSERT_NE(info.fault, Fault::kNone) << "fault " << i << " is not in the table";
    EXPECT_TRUE(names.emplace(info.name).second) << info.name;
    EXPECT_FALSE(info.meaning.empty()) << info.name;
    EXPECT_EQ(info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"),
              absl::string_view::npos)
        << info.name;
    EXPECT_EQ(FaultFromName(info.name), info.fault);
  }
}

TEST(Faults, TheListHasOneLinePerFault) {
  const std::string list = ListFaults();
  EXPECT_EQ(static_cast<size_t>(std::count(list.begin(), list.end(), '\n')), AllFaults().size());
}

TEST(ParseMechanics, KnowsBucketSlidingRampAndFixedWindows) {
  SimulatorOptions options;
  EXPECT_EQ(Text(ParseMechanics("leaky", &options)),
            "\"leaky\" is none of bucket, sliding, ramp, or the width of a fixed window: 60s, "
            "10s, 1s");
  EXPECT_FALSE(ParseMechanics("0", &options).ok());
  ASSERT_TRUE(ParseMechanics("10s", &options).ok());
  EXPECT_EQ(options.mechanics, Mechanics::kWindow);
  EXPECT_EQ(options.mechanics_period, absl::Seconds(10));
  ASSERT_TRUE(ParseMechanics("ramp", &options).ok());
  EXPECT_EQ(options.mechanics, Mechanics::kRamp);
}

TEST(ValidateOptions, SaysWhatIsWrong) {
  SimulatorOptions options;
  EXPECT_TRUE(ValidateOptions(options).ok());
  options.port = 70'000;
  EXPECT_THAT(Text(ValidateOptions(options)), HasSubstr("port"));
  options = {};
  options.port = options.tls_port = -1;
  EXPECT_EQ(Text(ValidateOptions(options)), "neither port nor tls-port is set");
  options = {};
  options.cert_file = "cert.pem";
  EXPECT_EQ(Text(ValidateOptions(options)), "cert and key must be given together");
  options = {};
  options.min_tokens = 10;
  options.max_tokens = 9;
  EXPECT_THAT(Text(ValidateOptions(options)), HasSubstr("tokens LO:HI"));
  options = {};
  options.faults = {{Fault::k503, 0.6}, {Fault::k500, 0.6}};
  EXPECT_THAT(Text(ValidateOptions(options)), HasSubstr("sum to 1.2"));
  options = {};
  options.tpm = -1;
  EXPECT_THAT(Text(ValidateOptions(options)), HasSubstr("tpm"));
}

}  // namespace
}  // namespace headrace::simulator
