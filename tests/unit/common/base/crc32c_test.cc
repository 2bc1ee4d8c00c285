#include "common/base/crc32c.h"

#include <string>

#include "common/base/random.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

// RFC 3720 appendix B.4.
TEST(Crc32c, GivesTheValuesOfTheRfc) {
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

TEST(Crc32c, OfNothingIsZeroAndChangesNothing) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("", 0x12345678u), 0x12345678u);
}

TEST(Crc32c, OfAWholeIsTheCrcOfItsPartsInOrder) {
  const std::string text = "one line of a result log, cut anywhere";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text)) << cut;
  }
}

TEST(Crc32c, TheTablesAndTheInstructionAgreeAtEveryLengthAndAlignment) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes.push_back(static_cast<char>(random.Below(256)));
  for (size_t start = 0; start < 9; ++start) {
    for (size_t length = 0; length + start <= bytes.size(); ++length) {
      const absl::string_view part = absl::string_view(bytes).substr(start, length);
      const auto before = static_cast<uint32_t>(random());
      ASSERT_EQ(Crc32c(part, before), internal::Crc32cPortable(part, before))
          << start << "+" << length;
    }
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::string line = R"({"id":"hr-7","error":null})";
  const uint32_t crc = Crc32c(line);
  for (size_t bit = 0; bit < 8 * line.size(); ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    line[bit / 8] ^= mask;
    EXPECT_NE(Crc32c(line), crc) << bit;
    line[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace headrace
