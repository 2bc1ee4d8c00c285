#include <sys/stat.h>

#include <memory>
#include <string>

#include "coordinator/store/disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

class RealDiskTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }

  const TempDir dir_;
  Disk* const disk_ = Disk::Real();
};

TEST_F(RealDiskTest, WhatIsMissingIsNotFound) {
  EXPECT_EQ(disk_->OpenRead(Path("a")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(disk_->OpenAppend(Path("no/a")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(disk_->ReadWhole(Path("a")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(disk_->List(Path("no")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(disk_->Rename(Path("a"), Path("b")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(disk_->Remove(Path("a")), absl::OkStatus());
}

TEST_F(RealDiskTest, AFullDeviceIsResourceExhausted) {
  const auto file = disk_->OpenAppend("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Append("x").code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(RealDiskTest, AFileWhereADirectoryShouldBeIsAnError) {
  ASSERT_EQ(disk_->WriteWhole(Path("f"), "x"), absl::OkStatus());
  EXPECT_FALSE(disk_->MakeDirs(Path("f")).ok());
  EXPECT_FALSE(disk_->MakeDirs(Path("f/g")).ok());
}

TEST_F(RealDiskTest, AppendedBytesAreReadBackFromAnyPlace) {
  ASSERT_EQ(disk_->MakeDirs(Path("x/y/z")), absl::OkStatus());
  const auto file = disk_->OpenAppend(Path("x/y/z/f"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->Append("hello "), absl::OkStatus());
  ASSERT_EQ((*file)->Append("world"), absl::OkStatus());
  ASSERT_EQ((*file)->DataSync(), absl::OkStatus());
  EXPECT_EQ(*(*file)->Read(6, 100), "world");
  EXPECT_EQ(*(*file)->Read(2, 3), "llo");
  EXPECT_EQ(*(*file)->Read(50, 3), "");
  ASSERT_EQ((*file)->Truncate(5), absl::OkStatus());
  ASSERT_EQ((*file)->Append("!"), absl::OkStatus());
  EXPECT_EQ(*disk_->ReadWhole(Path("x/y/z/f")), "hello!");
}

TEST_F(RealDiskTest, OverwrittenBytesStayInTheirPlaceAndTheNextOnesGoToTheEnd) {
  const auto file = disk_->OpenAppend(Path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->Append("hello world"), absl::OkStatus());
  ASSERT_EQ((*file)->Overwrite(2, "LLO"), absl::OkStatus());
  ASSERT_EQ((*file)->Append("!"), absl::OkStatus());
  EXPECT_EQ(*disk_->ReadWhole(Path("f")), "heLLO world!");
}

TEST_F(RealDiskTest, ReservedSpaceIsNotPartOfTheFileAndIsGivenBack) {
  const auto file = disk_->OpenAppend(Path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->Append("x"), absl::OkStatus());
  ASSERT_EQ((*file)->Reserve(int64_t{8} << 20), absl::OkStatus());
  EXPECT_EQ(*(*file)->Size(), 1);
  ASSERT_EQ((*file)->Truncate(1), absl::OkStatus());
  struct stat info;
  ASSERT_EQ(stat(Path("f").c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

TEST_F(RealDiskTest, WriteWholeReplacesAndLeavesNothingElse) {
  ASSERT_EQ(disk_->WriteWhole(Path("f"), "old and long"), absl::OkStatus());
  // What an earlier crash left must not become part of the file.
  ASSERT_EQ((*disk_->OpenAppend(Path("f.tmp")))->Append("rest"), absl::OkStatus());
  ASSERT_EQ(disk_->WriteWhole(Path("f"), "new"), absl::OkStatus());
  EXPECT_EQ(*disk_->ReadWhole(Path("f")), "new");
  EXPECT_THAT(*disk_->List(dir_.path()), ElementsAre("f"));
}

TEST_F(RealDiskTest, ALockEndsWithItsFile) {
  auto lock = disk_->Lock(Path("lock"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(disk_->Lock(Path("lock")).status().code(), absl::StatusCode::kFailedPrecondition);
  lock->reset();
  EXPECT_TRUE(disk_->Lock(Path("lock")).ok());
}

}  // namespace
}  // namespace headrace
