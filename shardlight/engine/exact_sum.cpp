#include "shardlight/engine/exact_sum.h"

#include <algorithm>
#include <cmath>

namespace shardlight::engine {
namespace {

constexpr int kDigitBits = 32;
constexpr int kLowestBit = -1152;
constexpr std::uint64_t kDigitMask = 0xffffffffU;
// Digits have 64 bits, so this many 32-bit summands fit before a carry.
constexpr std::uint32_t kAdditionsMax = 1U << 30;
constexpr std::size_t kBlock = 64;
constexpr std::size_t kLanes = 8;

// Eight partial sums, then those in order: the pattern is part of the result.
double squares_of_block(std::span<const float> block) {
  std::array<double, kLanes> lanes = {};
  std::size_t i = 0;
  for (; i + kLanes <= block.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double x = block[i + lane];
      lanes[lane] += x * x;
    }
  }
  for (; i < block.size(); ++i) {
    const double x = block[i];
    lanes[i % kLanes] += x * x;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void ExactSum::add(double value) {
  if (value == 0) return;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  const int bit = exponent - 53 - kLowestBit;
  auto digit = static_cast<std::size_t>(bit / kDigitBits);
  const int shift = bit % kDigitBits;
  // 53 bits from `shift` on span up to three digits.
  const auto low = (mantissa << shift) & kDigitMask;
  mantissa >>= kDigitBits - shift;
  digits_[digit] += low;
  digits_[digit + 1] += mantissa & kDigitMask;
  digits_[digit + 2] += mantissa >> kDigitBits;
  if (++additions_ == kAdditionsMax) carry();
}

bool ExactSum::add_squares(std::span<const float> elements) {
  bool finite = true;
  for (std::size_t begin = 0; begin < elements.size(); begin += kBlock) {
    const double sum =
        squares_of_block(elements.subspan(begin, std::min(kBlock, elements.size() - begin)));
    if (std::isfinite(sum)) {
      add(sum);
    } else {
      finite = false;
    }
  }
  return finite;
}

void ExactSum::carry() {
  std::uint64_t over = 0;
  for (auto& digit : digits_) {
    digit += over;
    over = digit >> kDigitBits;
    digit &= kDigitMask;
  }
  additions_ = 0;
}

std::array<double, ExactSum::kDigits> ExactSum::digits() const {
  ExactSum carried = *this;
  carried.carry();
  std::array<double, kDigits> digits = {};
  std::ranges::transform(carried.digits_, digits.begin(),
                         [](std::uint64_t digit) { return static_cast<double>(digit); });
  return digits;
}

ExactSum ExactSum::from_digits(std::span<const double> digits) {
  ExactSum sum;
  for (std::size_t i = 0; i < kDigits; ++i) {
    sum.digits_[i] = static_cast<std::uint64_t>(digits[i]);
  }
  sum.carry();
  return sum;
}

double ExactSum::value() const {
  ExactSum carried = *this;
  carried.carry();
  std::size_t top = kDigits;
  while (top > 0 && carried.digits_[top - 1] == 0) --top;
  // The three highest digits hold at least 65 bits; what is below is beyond a double's last place.
  double value = 0;
  const std::size_t bottom = top > 3 ? top - 3 : 0;
  for (std::size_t i = bottom; i < top; ++i) {
    value += std::ldexp(static_cast<double>(carried.digits_[i]),
                        static_cast<int>(i) * kDigitBits + kLowestBit);
  }
  return value;
}

}  // namespace shardlight::engine
