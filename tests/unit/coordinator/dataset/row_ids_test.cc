#include "coordinator/dataset/row_ids.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/dataset/test_files.h"

namespace headrace {
namespace {

TEST(RowIds, AgreesWithANaiveModelInMemoryAndSpilled) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  TestFiles files;
  for (int round = 0; round < 200; ++round) {
    RowIds ids(files.dir(), 1 + random.Below(40));
    std::map<std::string, uint64_t> first;
    std::vector<std::pair<uint64_t, uint64_t>> want;
    const uint64_t rows = random.Below(300);
    for (uint64_t row = 0; row < rows; ++row) {
      const std::string id = absl::StrCat("id", random.Below(2000));
      ASSERT_TRUE(ids.Add(id, RowIndex(row)).ok());
      const auto [it, inserted] = first.emplace(id, row);
      if (!inserted) want.emplace_back(it->second, row);
    }
    const absl::StatusOr<RowIds::Result> result = ids.Find();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->count, static_cast<int64_t>(want.size()));
    if (want.size() > RowIds::kMaxReported) want.resize(RowIds::kMaxReported);
    std::vector<std::pair<uint64_t, uint64_t>> got;
    for (const RowIds::Duplicate& d : result->duplicates) {
      got.emplace_back(d.first.value(), d.second.value());
    }
    ASSERT_EQ(got, want);
  }
  EXPECT_TRUE(std::filesystem::is_empty(files.dir())) << "temporary files are left";
}

TEST(RowIds, AScratchDirectoryThatIsNotThereIsNamed) {
  RowIds ids("/no/such/dir", 1);
  ASSERT_TRUE(ids.Add("a", RowIndex(0)).ok());
  const absl::Status status = ids.Add("b", RowIndex(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("/no/such/dir"), std::string::npos);
}

// Vectors of the reference implementation (SMHasher), x64 128 bits, seed 0.
TEST(HashText, MatchesTheReference) {
  EXPECT_EQ(HashText(""), (Hash128{0, 0}));
  EXPECT_EQ(HashText("hello"), (Hash128{0xcbd8a7b341bd9b02, 0x5b1e906a48ae1d19}));
  EXPECT_EQ(HashText("The quick brown fox jumps over the lazy dog"),
            (Hash128{0xe34bbc7bbc071b6c, 0x7a433ca9c49a9347}));
}

}  // namespace
}  // namespace headrace
