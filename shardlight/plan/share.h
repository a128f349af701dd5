// An exact number of bytes per rank: a whole number of bytes divided among ranks. 12 bytes a
// parameter over 7 ranks is a fraction of a byte; sums are taken of the fractions, and only what is
// shown is rounded (docs/memory.md).
// A value; any thread.
#pragma once

#include <cstdint>

#include "shardlight/base/quantity.h"

namespace shardlight::plan {

__extension__ using WideInteger = __int128;

class Share {
 public:
  constexpr Share() = default;
  // `numerator` / `ranks` bytes; 0 <= numerator, 1 <= ranks.
  constexpr Share(WideInteger numerator, std::int64_t ranks)
      : numerator_(numerator), ranks_(ranks) {}
  // A whole number of bytes.
  constexpr explicit Share(Bytes bytes) : numerator_(bytes.value()) {}

  // Of two different divisors one must be 1 or they must be equal: a sum is over one world.
  Share operator+(Share other) const;
  // `other` is at most this.
  Share operator-(Share other) const { return *this + Share(-other.numerator_, other.ranks_); }
  Share operator*(std::int64_t factor) const { return {numerator_ * factor, ranks_}; }
  std::strong_ordering operator<=>(const Share& other) const;
  bool operator==(const Share& other) const { return (*this <=> other) == 0; }

  // Whether whole bytes of it fit 64 bits.
  bool fits() const;
  // In units of unit / scale bytes, half up: scaled_half_up(Bytes(10^9), 100) is hundredths of a
  // GB.
  std::int64_t scaled_half_up(Bytes unit, std::int64_t scale) const;
  bool whole() const { return numerator_ % ranks_ == 0; }
  // Rounded down, and up, to whole bytes; a bug if that does not fit 64 bits (see fits()).
  Bytes floor() const;
  Bytes ceiling() const { return Bytes(floor().value() + (whole() ? 0 : 1)); }
  double to_double() const;

 private:
  WideInteger numerator_ = 0;
  std::int64_t ranks_ = 1;
};

}  // namespace shardlight::plan
