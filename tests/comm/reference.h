// What the results must be: numbers made up from a key, and the sums of reduce_order.h written as
// plain loops over ranks, without the steps that the exchange takes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shardlight/comm/reduce_order.h"
#include "shardlight/layout/dtype.h"

namespace shardlight::comm {

// Numbers of different sizes, so that the order of additions shows in the last bits.
struct Numbers {
  std::uint64_t key = 0;
  layout::DType dtype = layout::DType::kFloat32;  // float32, float16 or bfloat16

  // As they stand in memory, and what they are worth.
  std::vector<std::byte> bytes(std::int64_t begin, std::int64_t end) const;
  std::vector<float> values(std::int64_t begin, std::int64_t end) const;
};

// The nearest value of the dtype, of two the even one; infinite beyond the largest one's reach.
float rounded(double value, layout::DType dtype);
// Values of the dtype as they stand in memory.
std::vector<std::byte> bytes_of(const std::vector<float>& values, layout::DType dtype);

// A rank's gradient, and for each element whether one of its parts holds it.
struct RankGradient {
  std::vector<float> values;
  std::vector<char> present;
};
using Sum = std::optional<std::vector<float>>;  // nothing: nobody had a gradient

// Of a stretch of a unit, kept in `dtype`; `gradients` by rank, nothing where a rank passes.
class ReferenceSum {
 public:
  explicit ReferenceSum(layout::DType dtype = layout::DType::kFloat32) : dtype_(dtype) {}

  void add_round(const ReduceOrder& order,
                 const std::vector<std::optional<RankGradient>>& gradients);
  const Sum& value() const { return sum_; }

 private:
  layout::DType dtype_;
  Sum sum_;
};

}  // namespace shardlight::comm
