#include "shardlight/plan/share.h"

#include <limits>

#include "shardlight/base/check.h"

namespace shardlight::plan {

Share Share::operator+(Share other) const {
  if (ranks_ == other.ranks_) return {numerator_ + other.numerator_, ranks_};
  if (ranks_ == 1) return {numerator_ * other.ranks_ + other.numerator_, other.ranks_};
  SHARDLIGHT_CHECK_EQ(other.ranks_, 1);
  return {numerator_ + other.numerator_ * ranks_, ranks_};
}

std::strong_ordering Share::operator<=>(const Share& other) const {
  // Cross-multiplied in parts: whole bytes first, then the remainders, which are below 2^40.
  const WideInteger mine = numerator_ / ranks_;
  const WideInteger theirs = other.numerator_ / other.ranks_;
  if (mine != theirs)
    return mine < theirs ? std::strong_ordering::less : std::strong_ordering::greater;
  const WideInteger left = numerator_ % ranks_ * other.ranks_;
  const WideInteger right = other.numerator_ % other.ranks_ * ranks_;
  if (left == right) return std::strong_ordering::equal;
  return left < right ? std::strong_ordering::less : std::strong_ordering::greater;
}

bool Share::fits() const { return numerator_ / ranks_ <= std::numeric_limits<std::int64_t>::max(); }

Bytes Share::floor() const {
  SHARDLIGHT_CHECK_EQ(fits(), true);
  return Bytes(static_cast<std::int64_t>(numerator_ / ranks_));
}

std::int64_t Share::scaled_half_up(Bytes unit, std::int64_t scale) const {
  const WideInteger divisor = static_cast<WideInteger>(unit.value()) * ranks_;
  return static_cast<std::int64_t>((2 * numerator_ * scale + divisor) / (2 * divisor));
}

double Share::to_double() const {
  const WideInteger whole_bytes = numerator_ / ranks_;
  const auto fraction = static_cast<double>(numerator_ % ranks_) / static_cast<double>(ranks_);
  return static_cast<double>(whole_bytes) + fraction;
}

}  // namespace shardlight::plan
