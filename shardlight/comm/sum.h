// The arithmetic of a reduce: gradients of any floating dtype added into fp32. Element by
// element in order, one rounding an addition, so a result depends on nothing but its operands: not
// on length, alignment or the processor. The caller sees to it that nobody else writes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardlight/layout/dtype.h"

namespace shardlight::comm {

// Whether gradients of this dtype can be reduced: float32, float16, bfloat16.
bool can_reduce(layout::DType dtype);

// sum[i] = source[i], or sum[i] + source[i], for i < elements.
void store_as_float(float* sum, const void* source, layout::DType dtype, std::int64_t elements);
void add_as_float(float* sum, const void* source, layout::DType dtype, std::int64_t elements);

}  // namespace shardlight::comm
