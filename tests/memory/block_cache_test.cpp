// Pieces that end are used again, stand on an account as long as they are kept, and go before they
// would raise its peak.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "shardlight/memory/block_cache.h"

namespace shardlight::memory {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class Blocks : public ::testing::Test {
 protected:
  void SetUp() override { cache().open(account_); }
  void TearDown() override { cache().close(*account_); }

  static BlockCache& cache() { return BlockCache::of_process(); }
  Bytes kept() const { return account_->level(Tag::kCached).now; }

  std::shared_ptr<Account> account_ = std::make_shared<Account>();
};

std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  status >> size >> resident;
  return resident * 4096;
}

TEST_F(Blocks, AreUsedAgainWithTheirPages) {
  const Block first = cache().take(4 * kMiB);
  ASSERT_NE(first.data, nullptr);
  first.data[5] = std::byte{7};
  cache().give(first, account_);
  EXPECT_EQ(kept(), Bytes(4 * kMiB));
  const Block again = cache().take(4 * kMiB - 10000);
  EXPECT_EQ(again.data, first.data);
  EXPECT_EQ(again.data[5], std::byte{7});
  EXPECT_EQ(kept(), Bytes(0));
  cache().give(again, nullptr);
  EXPECT_EQ(kept(), Bytes(0));
}

TEST_F(Blocks, OfAnotherSizeAreNotTaken) {
  const Block first = cache().take(4 * kMiB);
  cache().give(first, account_);
  const Block smaller = cache().take(3 * kMiB);
  EXPECT_NE(smaller.data, first.data);
  cache().give(smaller, account_);
  const Block larger = cache().take(5 * kMiB);
  EXPECT_NE(larger.data, first.data);
  cache().give(larger, account_);
  EXPECT_EQ(kept(), Bytes(12 * kMiB));
}

// As the meter does: what is in use is on the account too.
TEST_F(Blocks, GoWhereTheSumWouldRiseAboveItsPeak) {
  const std::int64_t before = resident_bytes();
  for (int round = 0; round < 20; ++round) {
    const auto size = (static_cast<std::size_t>(round) % 7 + 2) * 8 * kMiB;
    const Bytes bytes(static_cast<std::int64_t>(size));
    const Block block = cache().take(size);
    ASSERT_NE(block.data, nullptr);
    account_->add(Tag::kActivations, bytes);
    std::fill_n(block.data, size, std::byte{1});
    EXPECT_LE(account_->total().peak, Bytes(64 * kMiB)) << round;
    EXPECT_LE(resident_bytes() - before, std::int64_t{66} << 20) << round;
    account_->remove(Tag::kActivations, bytes);
    cache().give(block, account_);
  }
  EXPECT_GT(kept(), Bytes(0));
  account_->add(Tag::kOptimizer, Bytes(64 * kMiB));
  EXPECT_EQ(kept(), Bytes(0));
  EXPECT_EQ(account_->total().peak, Bytes(64 * kMiB));
  account_->remove(Tag::kOptimizer, Bytes(64 * kMiB));
  EXPECT_LE(resident_bytes() - before, std::int64_t{2} << 20);
}

TEST_F(Blocks, OfAClosedAccountAreNotKept) {
  const Block kept_one = cache().take(4 * kMiB);
  const Block late = cache().take(4 * kMiB);
  cache().give(kept_one, account_);
  EXPECT_EQ(kept(), Bytes(4 * kMiB));
  cache().close(*account_);
  EXPECT_EQ(kept(), Bytes(0));
  cache().give(late, account_);
  EXPECT_EQ(kept(), Bytes(0));
}

TEST_F(Blocks, OfMoreThanThereIsAreNone) {
  EXPECT_EQ(cache().take(std::size_t{1} << 50).data, nullptr);
}

}  // namespace
}  // namespace shardlight::memory
