#include "shardlight/engine/exact_sum.h"

#include <algorithm>
#include <bit>
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
constexpr std::size_t kBlocksAtOnce = 64;

// Of whole blocks: eight partial sums each, then those in order; the pattern is part of the result.
// The square of a float is exact in double, so a machine that fuses multiplication and addition
// gives the same bits.
__attribute__((target_clones("avx512f", "avx2", "default"))) void squares_of_blocks(
    const float* elements, std::size_t blocks, double* sums) {
  for (std::size_t block = 0; block < blocks; ++block, elements += kBlock) {
    std::array<double, kLanes> lanes = {};
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double x = elements[i + lane];
        lanes[lane] += x * x;
      }
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    sums[block] = sum;
  }
}

}  // namespace

void ExactSum::add(double value) {
  // Exponent and mantissa as IEEE 754 has them; below the normal numbers the leading bit is
  // missing.
  constexpr int kMantissaBits = 52;
  constexpr int kExponentBias = 1023;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> kMantissaBits);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
  if (exponent > 0) mantissa |= std::uint64_t{1} << kMantissaBits;
  const int bit = std::max(exponent, 1) - kExponentBias - kMantissaBits - kLowestBit;
  const auto digit = static_cast<std::size_t>(bit / kDigitBits);
  const int shift = bit % kDigitBits;
  // 53 bits from `shift` on span up to three digits.
  digits_[digit] += (mantissa << shift) & kDigitMask;
  mantissa >>= kDigitBits - shift;
  digits_[digit + 1] += mantissa & kDigitMask;
  digits_[digit + 2] += mantissa >> kDigitBits;
  if (++additions_ == kAdditionsMax) carry();
}

bool ExactSum::add_squares(std::span<const float> elements) {
  bool finite = true;
  std::array<double, kBlocksAtOnce> sums = {};
  const auto add_blocks = [&](const float* data, std::size_t blocks) {
    squares_of_blocks(data, blocks, sums.data());
    for (const double sum : std::span(sums).first(blocks)) {
      if (std::isfinite(sum)) {
        add(sum);
      } else {
        finite = false;
      }
    }
  };
  while (elements.size() >= kBlock) {
    const std::size_t blocks = std::min(kBlocksAtOnce, elements.size() / kBlock);
    add_blocks(elements.data(), blocks);
    elements = elements.subspan(blocks * kBlock);
  }
  if (!elements.empty()) {
    std::array<float, kBlock> last = {};
    std::ranges::copy(elements, last.begin());
    add_blocks(last.data(), 1);
  }
  return finite;
}

bool ExactSum::add_squares(const comm::SumSpan& elements) {
  if (elements.dtype() == layout::DType::kFloat32) {
    return add_squares(std::span<const float>(elements.floats()));
  }
  bool finite = true;
  std::array<float, kBlock* kBlocksAtOnce> widened = {};
  constexpr Count kAtOnce(widened.size());
  for (Count begin; begin < elements.elements(); begin += kAtOnce) {
    const Count size = std::min(kAtOnce, elements.elements() - begin);
    const auto floats = std::span(widened).first(static_cast<std::size_t>(size.value()));
    comm::store_into(comm::SumSpan(floats), elements.part(begin, size).data(), elements.dtype());
    finite = add_squares(std::span<const float>(floats)) && finite;
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
