// How an engine takes a model that has changed: it looks and compares, makes ready while all still
// is as it was, takes itself apart but for what is carried, and puts itself together over a new
// transport. What is carried moves unit by unit (carry.h).
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>

#include "shardlight/engine/autograd_hooks.h"
#include "shardlight/engine/engine_impl.h"

namespace shardlight::engine {

// What is left of the engine before while the next one is not there: this rank's shards (by unit,
// copies, as the transport ends) and states.
struct Engine::Impl::Left {
  std::vector<memory::Buffer> shards;
  StatesLeft states;
  std::optional<ModelLayout> layout;
  ManagedTensors parameters;
};

namespace {

Failure refused_elsewhere() {
  return user_error("refresh", "refused on another rank",
                    "a model that all ranks have alike, between steps");
}

}  // namespace

Result<comm::Transport*> Engine::Impl::transport() {
  if (!transport_) SHARDLIGHT_TRY_STATUS(check());
  return transport_.get();
}

Status Engine::Impl::check_between_steps() const {
  const auto& used = gradients_->used();
  const bool any = std::ranges::find(used, true) != used.end();
  if (in_backward_ || any || gradients_->micro_steps() > 0) {
    return user_error("refresh", "with gradients that wait for step()",
                      "refresh() after step(), or before the first backward of the next one");
  }
  if (no_sync_scopes_ > 0) {
    return user_error("refresh", "within no_sync()", "refresh() after its scope");
  }
  if (const auto held = residency_->held()) {
    return user_error("gathered", "a scope over unit " + layout_->units[*held].name,
                      "no scope while refresh() moves the parameters");
  }
  return {};
}

Result<ModelChange> Engine::Impl::changed(const NamedTensors& parameters,
                                          const NamedTensors& buffers) const {
  SHARDLIGHT_TRY_STATUS(check_between_steps());
  return change_of({.parameters = &parameters_,
                    .buffers = &buffers_,
                    .layout = &*layout_,
                    .keeper = residency_.get()},
                   parameters, buffers, options_);
}

Status Engine::Impl::refresh(const NamedTensors& parameters, const NamedTensors& buffers) {
  SHARDLIGHT_TRY_STATUS(check());
  const at::DisableRecordFunctionGuard unrecorded;
  auto change = changed(parameters, buffers);
  std::vector<bool> refused = {!change.has_value()};
  SHARDLIGHT_TRY_STATUS(agree_on_any(*transport_, refused, deadline()));
  if (!change) return failure_of(std::move(change));
  if (refused.front()) return refused_elsewhere();
  SHARDLIGHT_TRY_STATUS(compare_configuration(
      *transport_, configuration_of(*change, optimizer_, options_, buffers), deadline()));
  const auto* const torch = std::get_if<TorchOptimizer>(&optimizer_);
  if (torch != nullptr && change->parameters_changed) {
    return user_error("optimizer", torch->name,
                      "one of the engine's own where the model changes, as only a class of "
                      "torch.optim knows its states");
  }
  auto taken = take_over(*std::move(change));
  if (!taken) error_ = taken.error();
  return taken;
}

Status Engine::Impl::take_over(ModelChange change) {
  if (change.parameters_changed) {
    auto left = make_ready(change);
    std::vector<bool> failed = {!left.has_value()};
    // Also the barrier at the old transport's end.
    SHARDLIGHT_TRY_STATUS(agree_on_any(*transport_, failed, deadline()));
    if (!left) return failure_of(std::move(left));
    if (failed.front()) {
      return Failure(Error::environment({.rank = layout_->rank, .unit = "", .operation = "refresh"},
                                        "another rank could not make ready for it",
                                        Unusable::kCommunicator));
    }
    take_apart(change, *left);
    if (auto whole = put_together(change, *std::move(left)); !whole) {
      lose(whole.error());
      return whole;
    }
  }
  buffers_ = std::move(change.buffers);
  SHARDLIGHT_TRY_STATUS(broadcast_all(change.new_buffers));
  seed_micro_step();
  return {};
}

// Edits become everybody's, parameters that are gone get their own memory, and shards are copied.
Result<Engine::Impl::Left> Engine::Impl::make_ready(const ModelChange& change) {
  SHARDLIGHT_TRY_STATUS(residency_->settle_gathers());
  // Masters follow as they are carried.
  if (auto settled = residency_->settle_edits(); !settled) return failure_of(std::move(settled));
  std::vector<bool> gone;
  for (const auto& after : change.renumbering) gone.push_back(!after);
  {
    const Unmetered unmetered;
    SHARDLIGHT_TRY_STATUS(residency_->let_go_of(gone));
  }
  Left left;
  for (layout::UnitIndex unit = 0; unit < layout_->units.size(); ++unit) {
    memory::Buffer& copy = left.shards.emplace_back();
    const bool stays = std::ranges::any_of(
        layout_->units[unit].parameters,
        [&](const layout::PlacedParameter& placed) { return !gone[placed.parameter]; });
    if (!stays) continue;
    const auto shard = transport_->shard(unit);
    const Bytes bytes(static_cast<std::int64_t>(shard.size()));
    SHARDLIGHT_TRY(copy, memory::Buffer::zeros(*account_, memory::Tag::kParameters, bytes));
    std::ranges::copy(shard, copy.data());
  }
  return left;
}

void Engine::Impl::take_apart(ModelChange& change, Left& left) {
  for (const auto& parameter : parameters_) on_gradient(parameter->tensor, {});
  left.states = states_->leave();
  views_.reset();
  gradients_.reset();
  states_.reset();
  for (const auto& after : change.renumbering) {
    if (after) take_away(*change.parameters[*after], "the engine is taking the model as it is now");
  }
  for (const auto& parameter : change.parameters) {
    if (parameter->tensor.requires_grad()) parameter->tensor.mutable_grad().reset();
  }
  residency_->leave();
  residency_.reset();
  account_transport(-1);
  transport_.reset();
  left.layout = std::exchange(layout_, change.layout);
  left.parameters = std::exchange(parameters_, std::move(change.parameters));
}

Status Engine::Impl::put_together(const ModelChange& change, Left left) {
  SHARDLIGHT_TRY_STATUS(connect());
  account_transport(1);
  const ModelLayout& before = *left.layout;
  const auto carry = [&](const layout::Placement& placement, const Renumbering& renumbering,
                         std::vector<memory::Buffer> slices) {
    return Carry::create(before, *layout_, placement, renumbering, std::move(slices), *transport_,
                         options_.deadline);
  };
  SHARDLIGHT_TRY(Carry values,
                 carry({.ways = layout_->world}, change.renumbering, std::move(left.shards)));
  const layout::Placement& stepped = layout_->placements.optimizer;
  const Renumbering trained = change.trained_on(before);
  SHARDLIGHT_TRY(Carry masters,
                 carry(stepped, change.mastered(before), std::move(left.states.masters)));
  CarriedStates states{.masters = std::move(masters),
                       .states = {},
                       .steps = std::vector<std::int64_t>(layout_->table.size())};
  for (auto& slices : left.states.states) {
    SHARDLIGHT_TRY(Carry state, carry(stepped, trained, std::move(slices)));
    states.states.push_back(std::move(state));
  }
  for (layout::ParameterIndex index = 0; index < trained.size(); ++index) {
    if (trained[index]) states.steps[*trained[index]] = left.states.steps[index];
  }
  steps_at_refresh_ = steps_;
  return make_parts({.carried = &values}, &states);
}

// What was on its way between two engines is nowhere any more.
void Engine::Impl::lose(const Error& why) {
  error_ = why;
  closed_ = true;
  open_.reset();
  touch_.reset();
  meter_.reset();
  for (const auto& parameter : parameters_) {
    on_gradient(parameter->tensor, {});
    if (!is_managed(*parameter)) continue;
    retire(*parameter,
           "parameter " + parameter->name + " was lost with its engine: " + why.message());
  }
  views_.reset();
  gradients_.reset();
  states_.reset();
  residency_.reset();
  if (transport_) account_transport(-1);
  transport_.reset();
}

}  // namespace shardlight::engine
