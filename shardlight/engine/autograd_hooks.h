// The engine's two ears in autograd: a parameter's gradient is complete, and a backward has ended.
// Kept apart because autograd's headers are large. Functions run on autograd's thread; what they
// throw ends the backward and comes out of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace shardlight::engine {

// After each accumulation into the tensor's .grad. One hook a tensor; an empty one takes it off.
void on_gradient(const at::Tensor& parameter, std::function<void()> hook);

// Whether this thread runs a backward.
bool in_backward();

// Within a hook: runs `function` when the backward that called the hook has ended well.
void at_end_of_backward(std::function<void()> function);

}  // namespace shardlight::engine
