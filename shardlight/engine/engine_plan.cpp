// What the ledger says of the engine's model on its ranks: by tag for its own placements, and for
// all of ZeRO's stages side by side.
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

// Elements of this rank's part of all units that train, without padding.
Count stepped_elements(const ModelLayout& layout, const layout::Placement& placement) {
  const auto table = layout::SliceTable::create(layout.units, placement, layout.world);
  Count elements;
  for (layout::UnitIndex unit = 0; unit < layout.units.size(); ++unit) {
    if (!layout.units[unit].trainable) continue;
    for (const auto& row : table->rows_of(unit, layout.rank)) elements += row.range.size();
  }
  return elements;
}

// Of what does not train nothing is stepped or summed.
plan::StateBytes bytes_of(const layout::Unit& unit, plan::GradientDtype grad_dtype) {
  const bool mixed = unit.dtype != layout::DType::kFloat32;
  const auto bytes = plan::state_bytes(mixed ? plan::Precision::kMixed : plan::Precision::kFp32,
                                       grad_dtype, plan::Optimizer::kSgd);
  return unit.trainable ? bytes : plan::StateBytes{.parameter = bytes.parameter};
}

// Each use reads parameters where their owners have them: nothing is fetched.
bool reads_in_place(const layout::Placements& placements, const Options& options) {
  return options.shared_units && placements.parameters.sharded();
}

// Elements of a unit's parameters that other ranks own; padding, which is gathered, has no
// gradient.
Count trained_by_others(const ModelLayout& layout, layout::UnitIndex unit) {
  Count elements;
  for (const auto& placed : layout.units[unit].parameters) elements += placed.elements;
  for (const auto& row : layout.exchanged.rows_of(unit, layout.rank))
    elements = elements - row.range.size();
  return elements;
}

// What this rank fetches and sends in a step, every unit released after its use.
comm::TrafficCount traffic_of(const ModelLayout& layout, const layout::Placements& placements,
                              const Options& options) {
  comm::TrafficCount traffic;
  for (layout::UnitIndex i = 0; i < layout.units.size(); ++i) {
    const layout::Unit& unit = layout.units[i];
    // Replicated parameters change in steps alone.
    if (!unit.trainable && !placements.parameters.sharded()) continue;
    const Count own = layout.exchanged.slice(i, layout.rank).size();
    const Count others = unit.elements - own;
    const auto reduce = options.reproducible ? plan::ReduceSetting::kOnce : options.reduce;
    for (const plan::Pass& pass : plan::passes_of_step(
             placements, bytes_of(unit, layout.grad_dtype), options.accumulation, reduce)) {
      const auto bytes = [&](Count of) { return Bytes(of.value() * pass.bytes_per_element); };
      if (pass.collective == plan::Collective::kReduceScatter) {
        traffic.reduced += bytes(trained_by_others(layout, i)) * pass.times;
      } else if (!placements.parameters.sharded()) {
        traffic.gathered += bytes(others);  // of sums too: they grow where they are, until the step
      } else if (!reads_in_place(placements, options)) {
        traffic.gathered += bytes(others) * pass.times;
      }
    }
  }
  return traffic;
}

// Two neighbouring units, the one in use and the one that is fetched ahead: the most they have.
Bytes gathered_of(const ModelLayout& layout, const layout::Placements& placements,
                  const Options& options) {
  if (!placements.parameters.sharded() || reads_in_place(placements, options)) return {};
  Bytes most;
  for (std::size_t i = 0; i < layout.units.size(); ++i) {
    const bool last = i + 1 == layout.units.size();
    most =
        std::max(most, layout.units[i].bytes() + (last ? Bytes(0) : layout.units[i + 1].bytes()));
  }
  return most;
}

}  // namespace

std::optional<Bytes> Engine::Impl::ledger(memory::Tag tag,
                                          const layout::Placements& placements) const {
  if (closed_) return std::nullopt;
  const auto names = states_->state_names();
  const BytesOf dtype = [](const layout::Unit& unit) {
    return layout::bytes_per_element(unit.dtype).value();
  };
  const BytesOf summed = [&](const layout::Unit& unit) {
    return bytes_of(unit, layout_->grad_dtype).gradient;
  };
  const BytesOf stepped = [&](const layout::Unit& unit) {
    return unit.trainable ? static_cast<std::int64_t>(names->size()) * kFloatBytes : 0;
  };
  const BytesOf mastered = [&](const layout::Unit& unit) {
    return bytes_of(unit, layout_->grad_dtype).optimizer;
  };
  switch (tag) {
    case memory::Tag::kParameters:
      return held(*layout_, placements.parameters, dtype);
    case memory::Tag::kGradients:
      return held(*layout_, placements.gradients, summed);
    case memory::Tag::kOptimizer:
      if (names) return held(*layout_, placements.optimizer, stepped);
      return Bytes(stepped_elements(*layout_, placements.optimizer).value() *
                   std::get<TorchOptimizer>(optimizer_).state_bytes);
    case memory::Tag::kMaster:
      return held(*layout_, placements.optimizer, mastered);
    case memory::Tag::kBuckets:
      return Bytes(0);
    default:
      return std::nullopt;
  }
}

Result<PlanReport> Engine::Impl::plan() const {
  SHARDLIGHT_TRY_STATUS(check());
  PlanReport report;
  for (const layout::Unit& unit : layout_->units) {
    report.units.push_back({.name = unit.name,
                            .elements = unit.elements,
                            .bytes = unit.bytes(),
                            .trainable = unit.trainable});
  }
  for (std::size_t stage = 0; stage < report.stages.size(); ++stage) {
    SHARDLIGHT_TRY(const auto placements,
                   layout::placements_of_stage(static_cast<std::int64_t>(stage), layout_->world));
    report.stages.at(stage) = {.parameters = ledger(memory::Tag::kParameters, placements).value(),
                               .gradients = ledger(memory::Tag::kGradients, placements).value(),
                               .master = ledger(memory::Tag::kMaster, placements).value(),
                               .optimizer = ledger(memory::Tag::kOptimizer, placements).value(),
                               .gathered = gathered_of(*layout_, placements, options_),
                               .traffic = traffic_of(*layout_, placements, options_)};
  }
  return report;
}

}  // namespace shardlight::engine
