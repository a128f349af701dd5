// Numbers that must not be mixed up: bytes, counts of elements, ranks. A Quantity converts neither
// from nor to a plain number by itself, and adds only to its own kind.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>

namespace shardlight {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t value) : value_(value) {}

  constexpr std::int64_t value() const { return value_; }
  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity operator+(Quantity other) const { return Quantity(value_ + other.value_); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(value_ - other.value_); }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity operator*(std::int64_t factor) const { return Quantity(value_ * factor); }

 private:
  std::int64_t value_ = 0;
};

using Bytes = Quantity<struct BytesTag>;
using Count = Quantity<struct CountTag>;  // elements of a tensor
using Rank = Quantity<struct RankTag>;    // 0 <= rank < world
using Seconds = std::chrono::duration<double>;

// Bytes per second, and floating-point operations: plain doubles, named by their suffix.

// a * b or a + b, or nothing where it does not fit 64 bits. Operands must not be negative.
constexpr std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  if (a != 0 && b > std::numeric_limits<std::int64_t>::max() / a) return std::nullopt;
  return a * b;
}
constexpr std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  if (b > std::numeric_limits<std::int64_t>::max() - a) return std::nullopt;
  return a + b;
}

// The smallest multiple of `step` that is not below `value`; 0 <= value, 0 < step.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return value / step * step + (value % step != 0 ? step : 0);
}
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t parts) {
  return value / parts + (value % parts != 0 ? 1 : 0);
}

}  // namespace shardlight
