// What the engine must equal: one process that knows nothing of ranks, units or shards. It takes
// the same micro-batches' gradients from torch, adds them in the order that is asked for, and steps
// whole parameters with torch's own fused optimizers, or as run.plain does.
#pragma once

#include "training.h"

namespace shardlight::engine {

enum class Clipping : std::uint8_t {
  kAsTheEngine,  // the same formula from the same norm: bit-equal
  kByTorch,      // torch::nn::utils::clip_grad_norm_: equal to rounding
};

// What a user changes after each step.
using TwinEdit = std::function<void(const TestModel& model)>;

// Adds as run.options say: over the micro-batches' binary tree (`reproducible`), each rank's own
// micro-steps first (`reduce` once), or by micro-step, then by rank. Of `order`, linear only.
// Sums are of `grad_dtype`.
Outcome train_plainly(const Training& run, Clipping clipping = Clipping::kAsTheEngine,
                      const TwinEdit& edit = {});

}  // namespace shardlight::engine
