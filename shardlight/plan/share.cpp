#include "shardlight/plan/share.h"

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

double Share::to_double() const {
  const WideInteger whole_bytes = numerator_ / ranks_;
  const auto fraction = static_cast<double>(numerator_ % ranks_) / static_cast<double>(ranks_);
  return static_cast<double>(whole_bytes) + fraction;
}

}  // namespace shardlight::plan
