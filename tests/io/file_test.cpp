#include "shardlight/io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/scratch.h"

namespace shardlight::io {
namespace {

TEST(File, ReadsRangesExactly) {
  const auto file = File::open(scratch_file("range", "0123456789"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), Bytes(10));
  EXPECT_EQ(*file->read(Bytes(2), Bytes(3)), "234");
  EXPECT_EQ(*file->read(Bytes(10), Bytes(0)), "");
}

TEST(File, AShortFileIsAnErrorNotAShortAnswer) {
  const std::string path = scratch_file("short", "0123456789");
  const auto text = File::open(path)->read(Bytes(8), Bytes(3));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().category(), ErrorCategory::kEnvironment);
  EXPECT_EQ(text.error().message(),
            "reading " + path +
                ": ends after 10 bytes; 11 were expected; no longer usable: "
                "this operation");
}

TEST(File, MovedFilesStayOpenOnce) {
  auto first = *File::open(scratch_file("move", "abc"));
  File second = std::move(first);
  first = *File::open(scratch_file("other", "xyz"));
  EXPECT_EQ(*second.read(Bytes(0), Bytes(3)), "abc");
  EXPECT_EQ(*first.read(Bytes(0), Bytes(3)), "xyz");
}

TEST(ReadFile, RefusesWhatIsMissingTooLargeOrNoFile) {
  EXPECT_EQ(*read_file(scratch_file("ok", "12345"), Bytes(5)), "12345");
  EXPECT_NE(
      read_file(scratch_file("large", "123456"), Bytes(5)).error().message().find("at most 5"),
      std::string::npos);
  EXPECT_NE(read_file("/nowhere/x", Bytes(5)).error().message().find("No such file"),
            std::string::npos);
  EXPECT_NE(read_file(testing::TempDir(), Bytes(5)).error().message().find("not a regular file"),
            std::string::npos);
  const std::string fifo = scratch_path("fifo");
  ::mkfifo(fifo.c_str(), 0600);
  EXPECT_FALSE(read_file(fifo, Bytes(5)));  // at once, though nobody writes to it
}

}  // namespace
}  // namespace shardlight::io
