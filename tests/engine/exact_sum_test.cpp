#include "shardlight/engine/exact_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace shardlight::engine {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, KeepsWhatRoundingLoses) {
  // In doubles 2^60 + 1 + … is 2^60 for ever.
  std::vector<double> values(4096, 1.0);
  values.insert(values.begin(), std::ldexp(1.0, 60));
  EXPECT_EQ(sum_of(values), std::ldexp(1.0, 60) + 4096);
}

TEST(ExactSum, HoldsTheWholeRangeOfDoubles) {
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_EQ(sum_of({kLeast, kLeast}), 2 * kLeast);
  EXPECT_EQ(sum_of({std::numeric_limits<double>::min(), kLeast}),
            std::numeric_limits<double>::min() + kLeast);
  EXPECT_EQ(sum_of({kMost, kLeast}), kMost);
  EXPECT_EQ(sum_of({}), 0);
}

TEST(ExactSum, DoesNotDependOnOrderOrOnWhoAdds) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-60, 60);
  std::vector<double> values(1000);
  for (double& value : values) value = std::exp2(exponent(random));
  const double expected = sum_of(values);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(values.begin(), values.end(), random);
    const auto cut = static_cast<std::ptrdiff_t>(random() % values.size());
    ExactSum left, right;
    for (auto it = values.begin(); it != values.begin() + cut; ++it) left.add(*it);
    for (auto it = values.begin() + cut; it != values.end(); ++it) right.add(*it);
    auto digits = left.digits();
    const auto others = right.digits();
    for (std::size_t d = 0; d < digits.size(); ++d) digits[d] += others[d];
    EXPECT_EQ(ExactSum::from_digits(digits).value(), expected);
  }
}

TEST(ExactSum, OfSquaresIsTheSameForEveryCutAtBlocks) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> values(64 * 50 + 13);
  for (float& value : values) value = normal(random);
  ExactSum whole;
  ASSERT_TRUE(whole.add_squares(values));
  double plain = 0;
  for (const float value : values) plain += static_cast<double>(value) * value;
  EXPECT_NEAR(whole.value(), plain, plain * 1e-12);
  for (std::size_t cut = 0; cut <= 50; ++cut) {
    ExactSum parts;
    ASSERT_TRUE(parts.add_squares(std::span(values).subspan(cut * 64)));
    ASSERT_TRUE(parts.add_squares(std::span(values).first(cut * 64)));
    EXPECT_EQ(parts.value(), whole.value()) << cut;
  }
}

TEST(ExactSum, SaysWhatIsNotFiniteAndLeavesItOut) {
  std::vector<float> values(128, 1.0F);
  values[70] = std::numeric_limits<float>::quiet_NaN();
  ExactSum sum;
  EXPECT_FALSE(sum.add_squares(values));
  EXPECT_EQ(sum.value(), 64);
}

}  // namespace
}  // namespace shardlight::engine
