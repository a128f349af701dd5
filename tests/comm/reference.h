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

using Part = std::optional<std::vector<float>>;  // nothing: passed

// Of a part of a unit; `gradients` by rank.
class ReferenceSum {
 public:
  void add_round(const ReduceOrder& order, const std::vector<Part>& gradients);
  const Part& value() const { return sum_; }

 private:
  Part sum_;
};

}  // namespace shardlight::comm
