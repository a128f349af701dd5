// Mapped, gzipped and written files.
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "shardlight/io/file.h"
#include "shardlight/io/gzip.h"
#include "shardlight/io/mapped_file.h"
#include "shardlight/io/output_file.h"
#include "tests/scratch.h"

namespace shardlight::io {
namespace {

std::string gzipped(const std::string& name, const std::vector<std::string>& members) {
  const std::string path = scratch_path(name);
  std::ofstream(path) << "";
  for (const std::string& member : members) {
    gzFile file = ::gzopen(path.c_str(), "ab");
    ::gzwrite(file, member.data(), static_cast<unsigned>(member.size()));
    ::gzclose(file);
  }
  return path;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(MappedFile, HasTheBytesOfTheFile) {
  auto first = *MappedFile::open(scratch_file("mapped", "0123456789"));
  EXPECT_EQ(text_of(first.bytes()), "0123456789");
  const MappedFile second = std::move(first);
  EXPECT_EQ(text_of(second.bytes()), "0123456789");
}

TEST(MappedFile, OfNothingIsEmptyAndOfNoFileAnError) {
  EXPECT_TRUE(MappedFile::open(scratch_file("nothing", ""))->bytes().empty());
  const auto missing = MappedFile::open("/no/such/file");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().category(), ErrorCategory::kEnvironment);
  EXPECT_NE(missing.error().message().find("/no/such/file"), std::string::npos);
  EXPECT_FALSE(MappedFile::open(testing::TempDir()));
}

TEST(Gzip, ReadsAllMembersOfAFile) {
  const std::string large(1 << 20, 'x');
  const auto text = read_gzip(gzipped("two.gz", {"one, ", large, ""}), Bytes(2 << 20));
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(*text, "one, " + large);
}

TEST(Gzip, NamesTheFileThatIsDamaged) {
  const std::string whole = *read_file(gzipped("whole.gz", {std::string(5000, 'y')}), Bytes(9999));
  for (const auto& [name, content] :
       {std::pair<std::string, std::string>{"no.gz", "plain text"},
        {"empty.gz", ""},
        {"short.gz", whole.substr(0, whole.size() - 3)},
        {"damaged.gz", whole.substr(0, whole.size() - 5) + "?" + whole.substr(whole.size() - 4)}}) {
    const std::string path = scratch_file(name, content);
    const auto text = read_gzip(path, Bytes(9999));
    ASSERT_FALSE(text) << name;
    EXPECT_EQ(text.error().message().find("reading " + path + ": "), 0U);
  }
}

TEST(Gzip, StopsAtTheMostItMayHold) {
  const std::string path = gzipped("bomb.gz", {std::string(1 << 20, 'z')});
  EXPECT_TRUE(read_gzip(path, Bytes(1 << 20)));
  EXPECT_FALSE(read_gzip(path, Bytes((1 << 20) - 1)));
}

TEST(OutputFile, GrowsByWhatIsAppended) {
  const std::string path = scratch_file("grows", "old content");
  auto file = *OutputFile::create(path);
  EXPECT_TRUE(file.append("a line\n"));
  EXPECT_EQ(*read_file(path, Bytes(99)), "a line\n");  // before it is closed
  EXPECT_TRUE(file.append("another\n"));
  EXPECT_EQ(*read_file(path, Bytes(99)), "a line\nanother\n");
}

TEST(OutputFile, NamesWhatCannotBeWritten) {
  const auto none = OutputFile::create("/no/such/folder/file");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("writing /no/such/folder/file"), std::string::npos);
  auto full = *OutputFile::create("/dev/full");
  const Status done = full.append("x");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(),
            "writing /dev/full: No space left on device; no longer usable: this operation");
}

TEST(OutputFile, IsWrittenByOneAtATime) {
  const std::string path = scratch_file("alone", "old content");
  {
    auto first = *OutputFile::create_alone(path);
    ASSERT_TRUE(first);
    EXPECT_TRUE(first->append("a line\n"));
    const auto second = OutputFile::create_alone(path);
    ASSERT_TRUE(second);
    EXPECT_FALSE(*second);
    EXPECT_EQ(*read_file(path, Bytes(99)), "a line\n");  // the second one has not emptied it
  }
  EXPECT_TRUE(*OutputFile::create_alone(path));
  EXPECT_EQ(*read_file(path, Bytes(99)), "");
  EXPECT_FALSE(OutputFile::create_alone("/no/such/folder/file"));
}

TEST(MakeFolder, MakesThoseAboveItAndTakesOneThatIsThere) {
  const std::string path = scratch_path("outer/inner");
  EXPECT_TRUE(make_folder(path));
  EXPECT_TRUE(make_folder(path));
  EXPECT_EQ(path_kind(path), PathKind::kFolder);
  EXPECT_FALSE(make_folder("/dev/null/inner"));
}

}  // namespace
}  // namespace shardlight::io
