// What the engine says of itself: memory by tag against the ledger, traffic against the plan,
// states.
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <functional>

#include "shardlight/engine/engine_impl.h"

namespace shardlight::engine {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);

using BytesOf = std::function<std::int64_t(const layout::Unit&)>;

// Bytes of this rank's part of all units of a table, padding included; `each` is what an element of
// a unit has.
Bytes held(const ModelLayout& layout, const layout::Placement& placement, const BytesOf& each) {
  Bytes bytes;
  for (const layout::Unit& unit : layout.units) {
    const std::int64_t slice = layout::slice_elements(unit.elements, placement.ways).value();
    const std::int64_t member = layout.rank.value() % placement.ways;
    const std::int64_t left = std::max<std::int64_t>(0, unit.elements.value() - slice * member);
    bytes += Bytes(std::min(slice, left) * each(unit));
  }
  return bytes;
}

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

std::optional<Bytes> Engine::Impl::ledger(memory::Tag tag) const {
  if (closed_) return std::nullopt;
  const layout::Placements& placements = layout_->placements;
  const BytesOf dtype = [](const layout::Unit& unit) {
    return layout::bytes_per_element(unit.dtype).value();
  };
  const BytesOf trained = [](const layout::Unit& unit) { return unit.trainable ? kFloatBytes : 0; };
  const BytesOf summed = [&](const layout::Unit& unit) {
    const bool mixed = unit.dtype != layout::DType::kFloat32;
    const auto bytes = plan::state_bytes(mixed ? plan::Precision::kMixed : plan::Precision::kFp32,
                                         layout_->grad_dtype, plan::Optimizer::kSgd);
    return unit.trainable ? bytes.gradient : 0;
  };
  const BytesOf mastered = [](const layout::Unit& unit) {
    return unit.trainable && unit.dtype != layout::DType::kFloat32 ? kFloatBytes : 0;
  };
  switch (tag) {
    case memory::Tag::kParameters:
      return held(*layout_, placements.parameters, dtype);
    case memory::Tag::kGradients:
      return held(*layout_, placements.gradients, summed);
    case memory::Tag::kOptimizer:
      if (const auto states = states_->state_names()) {
        return held(*layout_, placements.optimizer, trained) *
               static_cast<std::int64_t>(states->size());
      }
      return std::nullopt;
    case memory::Tag::kMaster:
      return held(*layout_, placements.optimizer, mastered);
    case memory::Tag::kBuckets:
      return Bytes(0);
    default:
      return std::nullopt;
  }
}

MemoryReport Engine::Impl::memory() const {
  MemoryReport report{.tags = {}, .total = account_->total()};
  for (std::size_t i = 0; i < memory::kTags; ++i) {
    const auto tag = static_cast<memory::Tag>(i);
    report.tags.push_back({.tag = tag, .bytes = account_->level(tag), .ledger = ledger(tag)});
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
