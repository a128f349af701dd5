#include "shardlight/comm/sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace shardlight::comm {
namespace {

using layout::DType;

// What 16 bits are worth, by the definition of the format: sign, exponent of `exponent_bits`, rest.
float worth(std::uint32_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
  const auto mantissa = static_cast<float>(bits & ((1U << mantissa_bits) - 1));
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  const float one = std::ldexp(1.0F, mantissa_bits);
  return sign * std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

void expect_all_of(DType dtype, int exponent_bits) {
  std::vector<std::uint16_t> all(65'536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> stored(all.size(), 7.0F), added(all.size(), 0.1F);
  store_as_float(stored.data(), all.data(), dtype, 65'536);
  add_as_float(added.data(), all.data(), dtype, 65'536);
  for (std::uint32_t i = 0; i < 65'536; ++i) {
    ASSERT_TRUE(same(stored[i], worth(i, exponent_bits))) << i << " " << stored[i];
    ASSERT_TRUE(same(added[i], 0.1F + worth(i, exponent_bits))) << i << " " << added[i];
  }
}

TEST(Sum, EveryBFloat16IsWidenedExactly) { expect_all_of(DType::kBFloat16, 8); }
TEST(Sum, EveryFloat16IsWidenedExactly) { expect_all_of(DType::kFloat16, 5); }

TEST(Sum, LengthAndAlignmentDoNotShow) {
  std::vector<float> source(300);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = 1.0F / static_cast<float>(i + 1);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (const std::size_t length : {0, 1, 7, 8, 31, 200}) {
      std::vector<float> sum(300, 0.3F);
      add_as_float(sum.data() + begin, source.data() + 1, DType::kFloat32,
                   static_cast<std::int64_t>(length));
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const bool inside = i >= begin && i < begin + length;
        ASSERT_EQ(sum[i], inside ? 0.3F + source[1 + i - begin] : 0.3F);
      }
    }
  }
}

}  // namespace
}  // namespace shardlight::comm
