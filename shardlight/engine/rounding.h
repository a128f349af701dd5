// fp32 values and the 16-bit tensor that is their rounding, which users see and may change. Pure
// but for the tensors it is given; one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

namespace shardlight::engine {

// Takes into `exact` (fp32) what was changed in `rounded` (bf16 or fp16, of the same shape); what
// still is the rounding of `exact`, bit for bit, keeps all its bits.
void take_changed(const at::Tensor& exact, const at::Tensor& rounded);

}  // namespace shardlight::engine
