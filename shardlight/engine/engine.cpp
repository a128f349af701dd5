#include "shardlight/engine/engine.h"

#include <utility>

#include "shardlight/engine/engine_impl.h"
#include "shardlight/engine/or_throw.h"

namespace shardlight::engine {
struct Engine::Gathered::Held {
  std::weak_ptr<Residency> engine_residency;  // the engine may end first
  std::vector<layout::UnitIndex> units;
};

Engine::Gathered::Gathered(std::unique_ptr<Held> held) : held_(std::move(held)) {}
Engine::Gathered::Gathered(Gathered&&) noexcept = default;

Engine::Gathered::~Gathered() {
  if (!held_) return;
  const auto residency = held_->engine_residency.lock();
  if (!residency) return;
  for (const layout::UnitIndex unit : held_->units) residency->unhold(unit);
}

Engine::Engine(const NamedTensors& parameters, const NamedTensors& buffers,
               const Optimizer& optimizer, const Options& options)
    : Engine(optimizer, options) {
  impl_ = or_throw(Impl::create(parameters, buffers, unbuilt_->optimizer, options));
  unbuilt_.reset();
}

// What a parent process has of it is not this process's to end.
Engine::~Engine() {
  if (!impl_ || !impl_->forked()) return;
  [[maybe_unused]] const Impl* const parents = impl_.release();
}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

void Engine::backward(const at::Tensor& loss) { impl().backward(loss); }

at::Tensor Engine::scaled(const at::Tensor& loss) { return impl().scaled(loss); }

StepReport Engine::step() { return or_throw(impl().step()); }

std::int64_t Engine::join() { return or_throw(impl().join()); }

void Engine::refresh(const NamedTensors& parameters, const NamedTensors& buffers) {
  or_throw(impl().refresh(parameters, buffers));
}

std::shared_ptr<void> Engine::no_sync() { return or_throw(impl().no_sync()); }

Engine::Gathered Engine::gathered(const std::vector<at::Tensor>& parameters, Access access) {
  auto held = std::make_unique<Gathered::Held>();
  held->engine_residency = impl().residency();
  Gathered scope(std::move(held));
  for (const at::Tensor& tensor : parameters) {
    const layout::UnitIndex unit = or_throw(impl().find(tensor)).unit;
    or_throw(impl().residency()->hold(unit, access == Access::kWrite));
    scope.held_->units.push_back(unit);
  }
  return scope;
}

at::Tensor Engine::gradient(const at::Tensor& parameter) {
  return or_throw(impl().gradient(or_throw(impl().find(parameter))));
}

at::Tensor Engine::optimizer_state(const at::Tensor& parameter, const std::string& name) {
  return or_throw(impl().optimizer_state(or_throw(impl().find(parameter)), name));
}

std::optional<Error> Engine::failure() const { return impl().failure(); }
MemoryReport Engine::memory() const { return impl().memory(); }
TrafficReport Engine::traffic() const { return impl().traffic(); }
PlanReport Engine::plan() const { return or_throw(impl().plan()); }
Rank Engine::rank() const { return impl().layout().rank; }
std::int64_t Engine::world() const { return impl().layout().world; }
comm::Transport& Engine::transport() { return *or_throw(impl().transport()); }
void Engine::close() {
  if (impl().forked()) or_throw(impl().check());
  or_throw(impl().close());
}

}  // namespace shardlight::engine
