#include "shardlight/engine/random_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace shardlight::engine {

at::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

KeptRandomState::~KeptRandomState() {
  if (!random_state().equal(state_)) set_random_state(state_);
}

}  // namespace shardlight::engine
