#include "shardlight/engine/engine.h"

#include <utility>

#include "shardlight/engine/engine_impl.h"

namespace shardlight::engine {
namespace {

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw std::move(result).error();
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace

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
    : impl_(or_throw(Impl::create(parameters, buffers, optimizer, options))) {}

// What a parent process has of it is not this process's to end.
Engine::~Engine() {
  if (!impl_ || !impl_->forked()) return;
  [[maybe_unused]] const Impl* const parents = impl_.release();
}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

void Engine::backward(const at::Tensor& loss) { impl_->backward(loss); }

at::Tensor Engine::scaled(const at::Tensor& loss) { return impl_->scaled(loss); }

StepReport Engine::step() { return or_throw(impl_->step()); }

std::int64_t Engine::join() { return or_throw(impl_->join()); }

std::shared_ptr<void> Engine::no_sync() { return or_throw(impl_->no_sync()); }

Engine::Gathered Engine::gathered(const std::vector<at::Tensor>& parameters, Access access) {
  auto held = std::make_unique<Gathered::Held>();
  held->engine_residency = impl_->residency();
  Gathered scope(std::move(held));
  for (const at::Tensor& tensor : parameters) {
    const layout::UnitIndex unit = or_throw(impl_->find(tensor)).unit;
    or_throw(impl_->residency()->hold(unit, access == Access::kWrite));
    scope.held_->units.push_back(unit);
  }
  return scope;
}

at::Tensor Engine::gradient(const at::Tensor& parameter) {
  return or_throw(impl_->gradient(or_throw(impl_->find(parameter))));
}

at::Tensor Engine::optimizer_state(const at::Tensor& parameter, const std::string& name) {
  return or_throw(impl_->optimizer_state(or_throw(impl_->find(parameter)), name));
}

std::optional<Error> Engine::failure() const { return impl_->failure(); }
MemoryReport Engine::memory() const { return impl_->memory(); }
TrafficReport Engine::traffic() const { return impl_->traffic(); }
Rank Engine::rank() const { return impl_->layout().rank; }
std::int64_t Engine::world() const { return impl_->layout().world; }
comm::Transport& Engine::transport() { return impl_->transport(); }
void Engine::close() { or_throw(impl_->close()); }

}  // namespace shardlight::engine
