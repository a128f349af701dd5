// Whole-number arithmetic that must not overflow silently or round by accident. Pure, constexpr;
// any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace shardlight {

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
