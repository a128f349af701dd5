// The engine's ears in autograd: a parameter's gradient is complete; the backward that brought it
// has ended, or has failed. Kept apart because autograd's headers are large. Functions run on
// autograd's thread, which on the CPU is the one that called backward; what they throw ends the
// backward and comes out of it.
//
// A backward within a backward (as torch's reentrant checkpointing has it) is part of the outer
// one, which is known by its first operator: see_operator() has to be told of all.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace shardlight::engine {

// After each accumulation into the tensor's .grad. One hook a tensor; an empty one takes it off.
void on_gradient(const at::Tensor& parameter, std::function<void()> hook);

// Whether this thread runs a backward.
bool in_backward();

// An operator is about to run on this thread.
void see_operator();

// Within a hook: `ended` runs when the outermost backward that this thread runs has ended well;
// `failed` if it never does, as soon as that is known.
void at_end_of_backward(std::function<void()> ended, std::function<void()> failed);
// The thread's backward is known to have failed.
void fail_backward();

}  // namespace shardlight::engine
