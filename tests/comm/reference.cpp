#include "tests/comm/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace shardlight::comm {
namespace {

using layout::DType;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

struct Number {
  std::uint32_t bits;
  float value;
};

// Not inlined: g++ 12 at -O3 forgets the rounding to bfloat16 when it makes vector code of the
// loop.
[[gnu::noinline]] Number number(std::uint64_t key, DType dtype, std::int64_t index) {
  const std::uint64_t random =
      mixed(key + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(index) + 1));
  const auto whole = static_cast<int>(random & 0xffff) - 32768;
  const float scale = 1.0F / static_cast<float>(1U << (8 + (random >> 16) % 12));
  // Some zeros, of either sign.
  const float value = (random >> 32) % 32 == 0 ? static_cast<float>(whole) * 0.0F
                                               : static_cast<float>(whole) * scale;
  if (dtype == DType::kBFloat16) {
    const std::uint32_t upper = std::bit_cast<std::uint32_t>(value) >> 16;
    return {upper, std::bit_cast<float>(upper << 16)};
  }
  if (dtype == DType::kFloat16) {
    const auto half = static_cast<_Float16>(value);
    return {std::bit_cast<std::uint16_t>(half), static_cast<float>(half)};
  }
  return {std::bit_cast<std::uint32_t>(value), value};
}

[[gnu::noinline]] std::uint32_t bits_of(float value, DType dtype) {
  if (dtype == DType::kFloat16) {
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return dtype == DType::kBFloat16 ? bits >> 16 : bits;
}

using Gradients = std::vector<std::optional<RankGradient>>;

void add_sum(Sum& sum, const Sum& more, DType dtype) {
  if (!more) return;
  if (!sum) {
    sum = more;
    return;
  }
  for (std::size_t i = 0; i < more->size(); ++i) {
    (*sum)[i] = rounded((*sum)[i] + (*more)[i], dtype);
  }
}

void add_gradient(Sum& sum, const std::optional<RankGradient>& gradient, DType dtype) {
  if (!gradient) return;
  const bool starts = !sum;
  if (starts) sum = std::vector<float>(gradient->values.size(), 0.0F);
  std::vector<float>& sums = *sum;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (gradient->present[i] == 0) continue;
    sums[i] = rounded(starts ? gradient->values[i] : sums[i] + gradient->values[i], dtype);
  }
}

// The sum over ranks [begin, end), split at the largest power of two below their number.
Sum tree(const Gradients& gradients, std::size_t begin, std::size_t end, DType dtype) {
  Sum sum;
  if (end - begin == 1) {
    add_gradient(sum, gradients[begin], dtype);
    return sum;
  }
  std::size_t half = 1;
  while (2 * half < end - begin) half *= 2;
  sum = tree(gradients, begin, begin + half, dtype);
  if (end - begin - half == 1) {
    add_gradient(sum, gradients[end - 1], dtype);
  } else {
    add_sum(sum, tree(gradients, begin + half, end, dtype), dtype);
  }
  return sum;
}

}  // namespace

// On the grid of the value's binade, or of the smallest one that has all digits: a number whose
// last place is that grid takes the rest away.
float rounded(double value, DType dtype) {
  if (dtype == DType::kFloat32 || !std::isfinite(value)) return static_cast<float>(value);
  const bool bfloat16 = dtype == DType::kBFloat16;
  constexpr std::int64_t kBias = 1023;
  const std::int64_t exponent = (std::bit_cast<std::int64_t>(value) >> 52 & 0x7ff) - kBias;
  const std::int64_t lowest = bfloat16 ? -126 : -14;
  const std::int64_t last_place = std::max(exponent, lowest) - (bfloat16 ? 7 : 10);
  const double large = 1.5 * std::bit_cast<double>((last_place + 52 + kBias) << 52);
  const double nearest = value + large - large;
  const double largest = bfloat16 ? 0x1.fep127 : 65'504.0;
  const double worth = std::abs(nearest) <= largest ? nearest : HUGE_VAL;
  return static_cast<float>(std::copysign(worth, value));
}

std::vector<std::byte> bytes_of(const std::vector<float>& values, DType dtype) {
  const auto each = static_cast<std::size_t>(layout::bytes_per_element(dtype).value());
  std::vector<std::byte> bytes(values.size() * each);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = bits_of(values[i], dtype);
    std::memcpy(bytes.data() + i * each, &bits, each);
  }
  return bytes;
}

std::vector<std::byte> Numbers::bytes(std::int64_t begin, std::int64_t end) const {
  const auto each = static_cast<std::size_t>(layout::bytes_per_element(dtype).value());
  std::vector<std::byte> result(static_cast<std::size_t>(end - begin) * each);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::uint32_t bits = number(key, dtype, i).bits;
    std::memcpy(result.data() + static_cast<std::size_t>(i - begin) * each, &bits, each);
  }
  return result;
}

std::vector<float> Numbers::values(std::int64_t begin, std::int64_t end) const {
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i) result.push_back(number(key, dtype, i).value);
  return result;
}

void ReferenceSum::add_round(const ReduceOrder& order, const Gradients& gradients) {
  if (order.kind == ReduceOrderKind::kTree) {
    return add_sum(sum_, tree(gradients, 0, gradients.size(), dtype_), dtype_);
  }
  if (order.kind == ReduceOrderKind::kLinear) {
    for (const auto& gradient : gradients) add_gradient(sum_, gradient, dtype_);
    return;
  }
  const auto group = static_cast<std::size_t>(order.group);
  for (std::size_t first = 0; first < gradients.size(); first += group) {
    Sum part;
    for (std::size_t i = first; i < std::min(first + group, gradients.size()); ++i) {
      add_gradient(part, gradients[i], dtype_);
    }
    add_sum(sum_, part, dtype_);
  }
}

}  // namespace shardlight::comm
