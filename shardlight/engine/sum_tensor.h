// A unit's sum of gradients, or a part of it, as torch sees it: a tensor over the same memory, of
// one dimension and of the sum's dtype. It owns nothing and allocates nothing. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include "shardlight/comm/sum.h"

namespace shardlight::engine {

at::Tensor tensor_of(const comm::SumSpan& sum);

}  // namespace shardlight::engine
