#include "shardlight/engine/model_layout.h"

#include <utility>

namespace shardlight::engine {
namespace {

plan::ReduceSetting reduce_of(const Options& options, const layout::Placements& placements) {
  if (options.accumulation == 1) return plan::ReduceSetting::kEveryMicroStep;
  if (options.reproducible) return plan::ReduceSetting::kOnce;
  if (options.reduce != plan::ReduceSetting::kDefault) return options.reduce;
  return placements.gradients.sharded() ? plan::ReduceSetting::kEveryMicroStep
                                        : plan::ReduceSetting::kOnce;
}

}  // namespace

Result<ModelLayout> lay_out(layout::ParameterTable table, const Options& options, Rank rank,
                            std::int64_t world) {
  SHARDLIGHT_TRY(const auto placements, placements_of(options, world));
  SHARDLIGHT_TRY(auto units, layout::build_units(table, {.bytes_min = options.unit_bytes,
                                                         .bytes_per_element = {}}));
  SHARDLIGHT_TRY(auto exchanged, layout::SliceTable::create(units, {.ways = world}, world));
  SHARDLIGHT_TRY(auto stepped, layout::SliceTable::create(units, placements.optimizer, world));
  comm::ReduceOrder order = options.order;
  if (options.reproducible) order = {.kind = comm::ReduceOrderKind::kTree};
  return ModelLayout{.table = std::move(table),
                     .units = std::move(units),
                     .placements = placements,
                     .exchanged = std::move(exchanged),
                     .stepped = std::move(stepped),
                     .rank = rank,
                     .world = world,
                     .reduce = reduce_of(options, placements),
                     .order = order,
                     .grad_dtype = options.grad_dtype};
}

std::vector<comm::UnitSpec> unit_specs(const ModelLayout& layout) {
  std::vector<comm::UnitSpec> specs;
  for (layout::UnitIndex unit = 0; unit < layout.units.size(); ++unit) {
    comm::UnitSpec spec{.name = layout.units[unit].name,
                        .dtype = layout.units[unit].dtype,
                        .slices = {},
                        .order = layout.order,
                        .reduces = layout.units[unit].trainable,
                        .whole = !layout.placements.parameters.sharded(),
                        .sum_dtype = layout.sum_dtype(unit)};
    for (std::int64_t rank = 0; rank < layout.world; ++rank) {
      spec.slices.push_back(layout.exchanged.slice(unit, Rank(rank)).size());
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace shardlight::engine
