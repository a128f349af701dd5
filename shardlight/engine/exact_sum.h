// The exact sum of doubles that are not negative, in fixed point over their whole range: it does
// not depend on the order of additions or on who adds what, so a norm has the same bits however the
// gradients are cut. The idea is Kulisch's long accumulator ("Computer Arithmetic and Validity",
// 2008), here as digits of 32 bits in doubles that an all-reduce can add.
// A value; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shardlight/comm/sum.h"

namespace shardlight::engine {

class ExactSum {
 public:
  // From 2^-1152 to 2^1120: above what a sum of doubles can reach, below the smallest double.
  static constexpr std::size_t kDigits = 71;

  // `value` is finite and not negative.
  void add(double value);
  // Sums of squares of 64 elements each (the last may be shorter), added in order within a block by
  // a fixed pattern. False if one of them is not finite; it is left out then.
  bool add_squares(std::span<const float> elements);
  // The same of the elements' values in fp32.
  bool add_squares(const comm::SumSpan& elements);

  // Digits from 0 to 2^32 - 1, lowest first: what all-reduces add up exactly over up to 2^20 ranks.
  std::array<double, kDigits> digits() const;
  static ExactSum from_digits(std::span<const double> digits);

  // Rounded once to within two units in the last place.
  double value() const;

 private:
  void carry();

  std::array<std::uint64_t, kDigits> digits_ = {};
  std::uint32_t additions_ = 0;  // since the last carry
};

}  // namespace shardlight::engine
