// Activation checkpointing for C++: what a part of the model computes is not kept for backward, but
// computed again there. Works with and without an engine; under one, parameters are gathered again
// as they are in forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace shardlight {

using Checkpointed = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

// segment(inputs), whose activations are freed as soon as it is computed. In backward it is called
// once more, with the random numbers it had at first, so dropout is the same; so it must compute
// the same from the same inputs. Gradients reach inputs, and parameters that the segment uses,
// also where no input requires a gradient. Without grad mode it is segment(inputs) and no more.
at::Tensor checkpoint(const Checkpointed& segment, const std::vector<at::Tensor>& inputs);

}  // namespace shardlight
