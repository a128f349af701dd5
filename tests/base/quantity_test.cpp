#include "shardlight/base/quantity.h"
#include "shardlight/base/arithmetic.h"

#include <gtest/gtest.h>

#include "shardlight/base/check.h"
#include "shardlight/base/clock.h"
#include "shardlight/base/nearest.h"

namespace shardlight {
namespace {

static_assert(!std::is_convertible_v<Bytes, Count> && !std::is_convertible_v<std::int64_t, Bytes>);

TEST(Quantity, AddsAndComparesWithItsOwnKind) {
  EXPECT_EQ(Bytes(3) + Bytes(4), Bytes(7));
  EXPECT_EQ(Bytes(3) * 4 - Bytes(2), Bytes(10));
  EXPECT_LT(Rank(1), Rank(2));
}

TEST(CheckedArithmetic, SaysWhereItDoesNotFit) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_multiply(1 << 20, 1 << 20), std::int64_t{1} << 40);
  EXPECT_EQ(checked_multiply(kMax, 1), kMax);
  EXPECT_EQ(checked_multiply(0, kMax), 0);
  EXPECT_EQ(checked_multiply(kMax / 2 + 1, 2), std::nullopt);
  EXPECT_EQ(checked_add(kMax, 0), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
}

TEST(Rounding, GoesUpToWholeSteps) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(divide_up(0, 3), 0);
  EXPECT_EQ(divide_up(7, 3), 3);
  EXPECT_EQ(divide_up(std::numeric_limits<std::int64_t>::max(), 1),
            std::numeric_limits<std::int64_t>::max());
}

TEST(Clock, ManualMovesByHandAndSteadyByItself) {
  ManualClock manual;
  EXPECT_EQ(manual.now().count(), 0);
  manual.advance(std::chrono::seconds(2));
  EXPECT_EQ(manual.now(), std::chrono::seconds(2));
  const SteadyClock steady;
  const auto before = steady.now();
  EXPECT_LE(before, steady.now());
}

TEST(NearestName, FindsTyposAndNothingFarAway) {
  const std::vector<std::string> names = {"gpt2", "gpt2-xl", "llama-7b"};
  EXPECT_EQ(nearest_name("gtp2", names), "gpt2");
  EXPECT_EQ(nearest_name("llama7b", names), "llama-7b");
  EXPECT_EQ(nearest_name("bert", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
}

TEST(CheckDeathTest, PrintsBothSidesAndThePlace) {
  SHARDLIGHT_CHECK_EQ(2 + 2, 4);
  EXPECT_DEATH(SHARDLIGHT_CHECK_LE(5, 4),
               "5 <= 4 does not hold \\(5 against 4\\) at .*quantity_test");
}

}  // namespace
}  // namespace shardlight
