#include "shardlight/memory/account.h"

#include <gmock/gmock.h>

#include "shardlight/memory/arena.h"

namespace shardlight::memory {
namespace {

TEST(Account, KeepsThePeakOfTheSumNotTheSumOfPeaks) {
  Account account;
  account.add(Tag::kGathered, Bytes(100));
  account.remove(Tag::kGathered, Bytes(60));
  account.add(Tag::kBuckets, Bytes(50));
  EXPECT_EQ(account.level(Tag::kGathered).peak, Bytes(100));
  EXPECT_EQ(account.level(Tag::kBuckets).peak, Bytes(50));
  EXPECT_EQ(account.total().now, Bytes(90));
  EXPECT_EQ(account.total().peak, Bytes(100));
}

TEST(Account, MovesBytesWithoutTouchingTheSum) {
  Account account;
  account.add(Tag::kTemporaries, Bytes(10));
  account.move(Tag::kTemporaries, Tag::kBuckets, Bytes(10));
  EXPECT_EQ(account.level(Tag::kTemporaries).now, Bytes(0));
  EXPECT_EQ(account.level(Tag::kBuckets).now, Bytes(10));
  EXPECT_EQ(account.total().peak, Bytes(10));
}

TEST(Account, ResetsPeaksToWhatIsHeld) {
  Account account;
  account.add(Tag::kOptimizer, Bytes(10));
  account.remove(Tag::kOptimizer, Bytes(4));
  account.reset_peaks();
  EXPECT_EQ(account.level(Tag::kOptimizer).peak, Bytes(6));
  EXPECT_EQ(account.total().peak, Bytes(6));
}

TEST(Buffer, IsZeroAndOnTheAccountAsLongAsItLives) {
  Account account;
  {
    auto made = Buffer::zeros(account, Tag::kOptimizer, Bytes(4096));
    ASSERT_TRUE(made);
    const Buffer buffer = std::move(*made);
    EXPECT_THAT(buffer.floats(), ::testing::Each(0.0F));
    EXPECT_EQ(account.level(Tag::kOptimizer).now, Bytes(4096));
  }
  EXPECT_EQ(account.level(Tag::kOptimizer).now, Bytes(0));
}

TEST(Buffer, OfNoBytesIsLegal) {
  Account account;
  const auto buffer = Buffer::zeros(account, Tag::kOptimizer, Bytes(0));
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->size(), 0U);
}

class ArenaTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kPage = 4096;

  Arena make(std::int64_t pages) {
    auto arena = Arena::create(account_, Tag::kGathered, Bytes(pages * kPage));
    EXPECT_TRUE(arena);
    return std::move(*arena);
  }

  Account account_;
};

TEST_F(ArenaTest, NeverHoldsMoreThanItsSize) {
  Arena arena = make(3);
  ASSERT_NE(arena.take(Bytes(2 * kPage)), nullptr);
  EXPECT_EQ(arena.take(Bytes(2 * kPage)), nullptr);
  EXPECT_NE(arena.take(Bytes(kPage)), nullptr);
  EXPECT_EQ(arena.used(), Bytes(3 * kPage));
}

TEST_F(ArenaTest, FitsAnyTwoPiecesThatFitTogether) {
  Arena arena = make(5);
  std::byte* const first = arena.take(Bytes(2 * kPage));
  std::byte* const second = arena.take(Bytes(2 * kPage));
  arena.give(first);
  std::byte* const third = arena.take(Bytes(3 * kPage));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(account_.level(Tag::kGathered).peak, Bytes(5 * kPage)) << "made beside the range";
  arena.give(second);
  arena.give(third);
  EXPECT_EQ(arena.used(), Bytes(0));
}

// The middle piece stays, so the free pages do not lie together.
TEST_F(ArenaTest, MakesAPieceBesideTheRangeWhereTheFreePartsAreApart) {
  Arena arena = make(4);
  std::byte* const a = arena.take(Bytes(kPage));
  std::byte* const b = arena.take(Bytes(kPage));
  std::byte* const c = arena.take(Bytes(kPage));
  std::byte* const d = arena.take(Bytes(kPage));
  arena.give(a);
  arena.give(c < d ? d : c);
  std::byte* const apart = arena.take(Bytes(2 * kPage));
  ASSERT_NE(apart, nullptr);
  std::fill_n(apart, 2 * kPage, std::byte{7});
  EXPECT_EQ(account_.level(Tag::kGathered).peak, Bytes(4 * kPage));
  arena.give(apart);
  arena.give(b);
  EXPECT_EQ(account_.level(Tag::kGathered).now, Bytes(4 * kPage));
}

TEST_F(ArenaTest, IsOnTheAccountForWhatItWasAllowedWhileThatIsTaken) {
  Arena arena = make(2);
  ASSERT_NE(arena.take(Bytes(2 * kPage)), nullptr);
  EXPECT_EQ(arena.take(Bytes(kPage)), nullptr);
  arena.allow(Bytes(kPage));
  std::byte* const more = arena.take(Bytes(kPage));
  ASSERT_NE(more, nullptr);
  EXPECT_EQ(account_.level(Tag::kGathered).now, Bytes(3 * kPage));
  arena.give(more);
  EXPECT_EQ(account_.level(Tag::kGathered).now, Bytes(2 * kPage));
}

TEST_F(ArenaTest, TakesNothingForPiecesOfNothing) {
  Arena arena = make(0);
  std::byte* const piece = arena.take(Bytes(0));
  EXPECT_NE(piece, nullptr);
  EXPECT_NE(arena.take(Bytes(0)), nullptr);
  EXPECT_EQ(arena.take(Bytes(1)), nullptr);
  EXPECT_EQ(arena.used(), Bytes(0));
  arena.give(piece);
}

}  // namespace
}  // namespace shardlight::memory
