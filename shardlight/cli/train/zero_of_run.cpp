#include "shardlight/cli/train/zero_of_run.h"

namespace shardlight::cli {

bool has_own_placements(const ZeroConfig& zero) {
  const PlacementsConfig& own = zero.placements;
  const std::string by_stage = PlacementsConfig().parameters;
  return own.parameters != by_stage || own.gradients != by_stage || own.optimizer != by_stage;
}

Result<layout::Placements> placements_of_run(const TrainConfig& config) {
  SHARDLIGHT_TRY(layout::Placements row,
                 layout::placements_of_stage(config.zero.stage, config.ranks));
  const auto replace = [&](const std::string& wanted, layout::Placement& placement) {
    if (wanted == PlacementsConfig().parameters) return;
    placement.ways = wanted == "sharded" ? config.ranks : 1;
  };
  replace(config.zero.placements.parameters, row.parameters);
  replace(config.zero.placements.gradients, row.gradients);
  replace(config.zero.placements.optimizer, row.optimizer);
  return row;
}

comm::ReduceOrder reduce_order_of(const ZeroConfig& zero) {
  if (zero.order == "tree") return {.kind = comm::ReduceOrderKind::kTree};
  if (zero.order == "linear") return {};
  return {.kind = comm::ReduceOrderKind::kGrouped, .group = zero.group};
}

plan::ReduceSetting reduce_setting_of(const ZeroConfig& zero) {
  if (zero.reduce == "once") return plan::ReduceSetting::kOnce;
  return zero.reduce == "default" ? plan::ReduceSetting::kDefault
                                  : plan::ReduceSetting::kEveryMicroStep;
}

std::string default_reduce(const TrainConfig& config, const layout::Placements& placements) {
  const bool once = config.zero.reproducible || !placements.gradients.sharded();
  return once ? "once" : "every-micro-step";
}

}  // namespace shardlight::cli
