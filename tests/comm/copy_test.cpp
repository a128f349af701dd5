#include "shardlight/comm/copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardlight::comm {
namespace {

// Every byte at its place and none beside, whatever the path takes by lines, pages and groups.
void expect_copied(std::int64_t bytes, std::size_t target_at, std::size_t source_at,
                   std::int64_t unit_bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  std::vector<std::uint8_t> source(size + source_at), target(size + target_at + 200, 0xEE);
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::uint8_t>(i * 2'654'435'761U >> 13);
  }
  std::vector<std::uint8_t> expected = target;
  for (std::size_t i = 0; i < size; ++i) expected[target_at + i] = source[source_at + i];
  copy_of_unit(target.data() + target_at, source.data() + source_at, bytes, unit_bytes);
  EXPECT_EQ(target, expected) << bytes << " bytes from +" << source_at << " to +" << target_at
                              << " of a unit of " << unit_bytes;
}

TEST(Copy, PartsOfAnyLengthAndAlignmentArriveWhole) {
  for (const std::int64_t unit : {kPastCacheFrom - 1, kPastCacheFrom}) {
    for (const std::int64_t bytes : {0, 1, 63, 64, 4096, 16'383, 16'384, 16'448, 33'000, 100'003}) {
      for (const std::size_t target_at : {0, 1, 4, 63, 64, 100}) {
        for (const std::size_t source_at : {0, 1, 8, 62}) {
          expect_copied(bytes, target_at, source_at, unit);
        }
      }
    }
  }
}

TEST(Copy, NothingIsCopiedFromNowhere) {
  copy_bytes(nullptr, nullptr, 0);
  copy_of_unit(nullptr, nullptr, 0, kPastCacheFrom);
}

}  // namespace
}  // namespace shardlight::comm
