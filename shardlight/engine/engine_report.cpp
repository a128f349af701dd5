// What the engine says of itself: memory by tag against the ledger, traffic against the plan,
// states.
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "shardlight/engine/engine_impl.h"

namespace shardlight::engine {
namespace {

CallTimes times_of(const comm::Timing& timing, comm::OperationKind kind) {
  const comm::DurationHistogram& times = timing.times(kind);
  return {.calls = times.count(),
          .total = times.total(),
          .p50 = times.percentile(0.5),
          .p99 = times.percentile(0.99)};
}

}  // namespace

// The transport holds shards and sums; of the orders of addition with partial sums, those too.
void Engine::Impl::account_transport(int sign) {
  const auto change = [&](memory::Tag tag, std::int64_t bytes) {
    account_->add(tag, Bytes(bytes * sign));
  };
  const auto sums =
      layout_->placements.gradients.sharded() ? memory::Tag::kGradients : memory::Tag::kSums;
  const std::int64_t partial = comm::reduce_buffers(layout_->order, layout_->world) - 1;
  for (layout::UnitIndex unit = 0; unit < layout_->units.size(); ++unit) {
    const auto whole = transport_->whole(unit);
    const auto values = whole.empty() ? transport_->shard(unit) : whole;
    change(memory::Tag::kParameters, static_cast<std::int64_t>(values.size()));
    if (!layout_->units[unit].trainable) continue;
    const std::int64_t slice =
        layout_->sum_bytes(unit, layout_->exchanged.slice(unit, layout_->rank).size()).value();
    change(sums, slice);
    change(memory::Tag::kSums, slice * partial);
  }
}

MemoryReport Engine::Impl::memory() const {
  MemoryReport report{.tags = {}, .total = account_->total()};
  for (std::size_t i = 0; i < memory::kTags; ++i) {
    const auto tag = static_cast<memory::Tag>(i);
    report.tags.push_back(
        {.tag = tag, .bytes = account_->level(tag), .ledger = ledger(tag, layout_->placements)});
  }
  return report;
}

TrafficReport Engine::Impl::traffic() const {
  if (closed_) return traffic_at_close_;
  const GatherCount gathers = residency_->count();
  return {.moved = transport_->traffic(),
          .planned = {.gathered = gathers.wire_bytes + gradients_->count().gathered,
                      .reduced = gradients_->count().reduced},
          .gathers = gathers.gathers,
          .gathers_ahead = gathers.ahead,
          .unforeseen = gathers.unforeseen,
          .gather_waited = gathers.waited,
          .reduce_waited = gradients_->waited(),
          .gather = times_of(*transport_, comm::OperationKind::kGather),
          .reduce = times_of(*transport_, comm::OperationKind::kReduce),
          .gathered_peak = gathers.peak};
}

Result<at::Tensor> Engine::Impl::optimizer_state(const ManagedTensor& parameter,
                                                 const std::string& name) {
  const auto known = states_->state_names();
  auto names = known.value_or(std::vector<std::string>());
  const std::size_t states = names.size();
  if (parameter.tensor.scalar_type() != at::kFloat) names.emplace_back("master");
  const auto found = std::ranges::find(names, name);
  if (found == names.end() || !parameter.tensor.requires_grad()) {
    std::string allowed = "a state that the optimizer has for it:";
    for (const std::string& one : names) allowed += " " + one;
    if (!known) allowed += " (those of a class of torch.optim are its own)";
    return user_error("state of " + parameter.name, name, allowed);
  }
  const at::DisableRecordFunctionGuard unrecorded;
  const auto which = static_cast<std::size_t>(found - names.begin());
  const layout::UnitIndex unit = parameter.unit;
  at::Tensor whole = at::zeros({layout_->units[unit].elements.value()}, at::kFloat);
  auto* const data = whole.mutable_data_ptr<float>();
  const std::span<const float> own =
      which == states ? states_->master(unit) : states_->state(unit, which);
  const auto begin = layout_->stepped.slice(unit, layout_->rank).begin.value();
  std::ranges::copy(own, data + begin);
  for (std::int64_t root = 0; root < layout_->placements.optimizer.ways; ++root) {
    const auto slice = layout_->stepped.slice(unit, Rank(root));
    const std::span<float> floats(data + slice.begin.value(),
                                  static_cast<std::size_t>(slice.size().value()));
    SHARDLIGHT_TRY_STATUS(
        transport_->broadcast(std::as_writable_bytes(floats), Rank(root), deadline()));
  }
  return whole.narrow(0, parameter.offset, parameter.elements())
      .clone()
      .view(parameter.tensor.sizes());
}

}  // namespace shardlight::engine
