#include "shardlight/comm/sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/comm/reference.h"

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
  store_into(SumSpan(stored), all.data(), dtype);
  add_into(SumSpan(added), all.data(), dtype);
  for (std::uint32_t i = 0; i < 65'536; ++i) {
    ASSERT_TRUE(same(stored[i], worth(i, exponent_bits))) << i << " " << stored[i];
    ASSERT_TRUE(same(added[i], 0.1F + worth(i, exponent_bits))) << i << " " << added[i];
  }
}

TEST(Sum, EveryBFloat16IsWidenedExactly) { expect_all_of(DType::kBFloat16, 8); }
TEST(Sum, EveryFloat16IsWidenedExactly) { expect_all_of(DType::kFloat16, 5); }

// What 16-bit sums are worth, element by element.
std::vector<float> worth_of(std::vector<std::uint16_t>& sum, int exponent_bits) {
  std::vector<float> values;
  for (const std::uint16_t bits : sum) values.push_back(worth(bits, exponent_bits));
  return values;
}

SumSpan span_of(std::vector<std::uint16_t>& sum, DType dtype) {
  return {reinterpret_cast<std::byte*>(sum.data()), dtype,
          Count(static_cast<std::int64_t>(sum.size()))};
}

// Every value of the dtype as a sum, to which one number of it is added. Two roundings, by way of
// double, are one where double has more than twice the digits.
void expect_rounded_sums(DType dtype, int exponent_bits) {
  const std::vector<std::uint16_t> added = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x3c00, 0x3f80,
                                            0xbf81, 0x3c01, 0x4049, 0xc2c8, 0x7bff, 0x7f7f, 0xff7f,
                                            0x7c00, 0x7f80, 0xff80, 0x7e00, 0x7fc0};
  std::vector<std::uint16_t> all(65'536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const std::uint16_t number : added) {
    std::vector<std::uint16_t> sum = all;
    const std::vector<std::uint16_t> numbers(all.size(), number);
    add_into(span_of(sum, dtype), numbers.data(), dtype);
    const std::vector<float> found = worth_of(sum, exponent_bits);
    for (std::uint32_t i = 0; i < 65'536; ++i) {
      const double exact = double{worth(i, exponent_bits)} + worth(number, exponent_bits);
      ASSERT_TRUE(same(found[i], rounded(exact, dtype)))
          << i << " + " << number << " is " << found[i] << ", not " << rounded(exact, dtype);
    }
  }
}

TEST(Sum, OfBFloat16IsRoundedToTheNearestEven) { expect_rounded_sums(DType::kBFloat16, 8); }
TEST(Sum, OfFloat16IsRoundedToTheNearestEven) { expect_rounded_sums(DType::kFloat16, 5); }

// Just below, at and just above the middle between any two values, and the values themselves.
void expect_rounded_floats(DType dtype, int exponent_bits, std::uint32_t middle) {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 65'536; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, middle - 1, middle, middle + 1, 0xffffU}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::vector<std::uint16_t> stored(values.size()), added(values.size());
  store_into(span_of(stored, dtype), values.data(), DType::kFloat32);
  add_into(span_of(added, dtype), values.data(), DType::kFloat32);
  const std::vector<float> by_store = worth_of(stored, exponent_bits);
  const std::vector<float> by_addition = worth_of(added, exponent_bits);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float wanted = rounded(values[i], dtype);
    const float sum = rounded(values[i] + 0.0F, dtype);
    ASSERT_TRUE(same(by_store[i], wanted)) << values[i] << " stored as " << by_store[i];
    ASSERT_TRUE(same(by_addition[i], sum)) << values[i] << " added as " << by_addition[i];
  }
}

TEST(Sum, OfBFloat16TakesFloatsRounded) { expect_rounded_floats(DType::kBFloat16, 8, 0x8000); }
TEST(Sum, OfFloat16TakesFloatsRounded) { expect_rounded_floats(DType::kFloat16, 5, 0x1000); }

// Its own dtype is stored as it is, also what is no number.
TEST(Sum, OfItsOwnDTypeKeepsAllBits) {
  std::vector<std::uint16_t> all(65'536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<std::uint16_t> sum(all.size(), 0x1234);
    store_into(span_of(sum, dtype), all.data(), dtype);
    EXPECT_EQ(sum, all);
  }
}

TEST(Sum, APartIsCountedInElements) {
  std::vector<std::uint16_t> sum = {1, 2, 3, 4, 5};
  const SumSpan part = span_of(sum, DType::kFloat16).part(Count(1), Count(3));
  const std::vector<std::uint16_t> ones(3, 0x3c00);
  store_into(part, ones.data(), DType::kFloat16);
  EXPECT_EQ(sum, (std::vector<std::uint16_t>{1, 0x3c00, 0x3c00, 0x3c00, 5}));
  EXPECT_EQ(part.bytes().size(), 6U);
  EXPECT_TRUE(part.part(Count(3), Count(0)).empty());
}

TEST(Sum, LengthAndAlignmentDoNotShow) {
  std::vector<float> source(300);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = 1.0F / static_cast<float>(i + 1);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (const std::size_t length : {0, 1, 7, 8, 31, 200}) {
      std::vector<float> sum(300, 0.3F);
      add_into(SumSpan(std::span(sum).subspan(begin, length)), source.data() + 1, DType::kFloat32);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const bool inside = i >= begin && i < begin + length;
        ASSERT_EQ(sum[i], inside ? 0.3F + source[1 + i - begin] : 0.3F);
      }
    }
  }
}

}  // namespace
}  // namespace shardlight::comm
