#include "shardlight/base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace shardlight {
namespace {

// The published known answers of Philox4x32-10 (Random123's kat_vectors).
TEST(CounterRandom, GivesThePublishedBits) {
  EXPECT_EQ(CounterRandom(0, 0).block(0),
            (CounterRandom::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(CounterRandom(ones, ones).block(ones),
            (CounterRandom::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(CounterRandom(0x299f31d0a4093822, 0x0370734413198a2e).block(0x85a308d3243f6a88),
            (CounterRandom::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, IsAFunctionOfSeedStreamAndCounter) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed : {0, 1}) {
    for (std::uint64_t stream : {0, 1}) {
      for (std::uint64_t counter = 0; counter < 100; ++counter) {
        seen.insert(CounterRandom(seed, stream).bits(counter));
      }
    }
  }
  EXPECT_EQ(seen.size(), 400U);
}

TEST(CounterRandom, UniformFillsTheHalfOpenInterval) {
  const CounterRandom random(1);
  double sum = 0, low = 1, high = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const double value = random.uniform(i);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
  EXPECT_LT(low, 0.01);
  EXPECT_GT(high, 0.99);
}

}  // namespace
}  // namespace shardlight
