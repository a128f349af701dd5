// The state of torch's generator on the CPU, which is the process's: whoever draws while it is set
// or kept draws the same numbers once more. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace shardlight::engine {

at::Tensor random_state();
void set_random_state(const at::Tensor& state);

// At its end the state is again what it was at its beginning.
class KeptRandomState {
 public:
  KeptRandomState() : state_(random_state()) {}
  ~KeptRandomState();
  KeptRandomState(const KeptRandomState&) = delete;
  KeptRandomState& operator=(const KeptRandomState&) = delete;
  KeptRandomState(KeptRandomState&&) = delete;
  KeptRandomState& operator=(KeptRandomState&&) = delete;

 private:
  at::Tensor state_;
};

}  // namespace shardlight::engine
