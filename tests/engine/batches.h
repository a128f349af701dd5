// The batches of the test models: random tensors that depend on (step, global micro-batch) alone,
// whatever else draws random numbers. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace shardlight::engine {

// Normally distributed; whole numbers in [0, most).
at::Tensor normal_batch(at::IntArrayRef shape, std::int64_t step, std::int64_t micro_batch);
at::Tensor token_batch(std::int64_t most, at::IntArrayRef shape, std::int64_t step,
                       std::int64_t micro_batch);

}  // namespace shardlight::engine
