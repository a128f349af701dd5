// Numbers that must not be mixed up: bytes, counts of elements, ranks. A Quantity converts neither
// from nor to a plain number by itself, and adds only to its own kind.
// Pure, constexpr; any thread.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

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

}  // namespace shardlight
