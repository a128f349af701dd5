// Tries out whether an optimizer steps each element of a parameter by itself, which is what a rank
// needs that has a part of it: whole tensors are stepped, and the same ones cut as slices are, and
// all bits compared. Torch's generator is afterwards as it was. Any thread.
#pragma once

#include "shardlight/engine/options.h"

namespace shardlight::engine {

// Of a TorchOptimizer, whose `state_bytes` it sets; our own optimizers are. One that is known or
// declared to be element-wise is tried for whether it steps at all. A user error that names the
// class, what was found, and what is allowed.
Status check_elementwise(Optimizer& optimizer);

}  // namespace shardlight::engine
