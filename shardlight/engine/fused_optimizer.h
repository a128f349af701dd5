// AdamW, Adam and SGD by torch's own fused kernels, and Lion, over segments. Cuts fall on whole
// vectors counted from the parameter's start, so the kernels give the bits they give on whole
// parameters (docs/layout.md). Its states lie in buffers of ours, one a unit and state, on the
// account. As SegmentOptimizer: one thread at a time.
#pragma once

#include "shardlight/engine/carry.h"
#include "shardlight/engine/model_layout.h"
#include "shardlight/engine/segment_optimizer.h"
#include "shardlight/memory/account.h"

namespace shardlight::engine {

// Errors: no memory; those of what is `carried`, by state, in place of zeros. Layout, segments and
// account outlive it.
Result<std::unique_ptr<SegmentOptimizer>> make_fused(const ModelLayout& layout,
                                                     const Optimizer& optimizer,
                                                     std::span<const Segment> segments,
                                                     memory::Account& account,
                                                     std::span<Carry> carried = {});

}  // namespace shardlight::engine
