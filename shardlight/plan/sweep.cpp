#include "shardlight/plan/sweep.h"

#include <vector>

namespace shardlight::plan {

Status sweep(const SweepGrid& grid, StateBytes bytes,
             const std::function<void(const SweepCell&)>& visit) {
  // What depends on ranks and stage alone is computed once, not for every model size.
  struct World {
    std::int64_t ranks;
    int stage;
    layout::Placements placements;
    std::vector<Pass> passes;
  };
  std::vector<World> worlds;
  for (const std::int64_t ranks : grid.ranks) {
    for (const int stage : grid.stages) {
      SHARDLIGHT_TRY(const auto placements, layout::placements_of_stage(stage, ranks));
      worlds.push_back({ranks, stage, placements,
                        passes_of_step(placements, bytes, 1, ReduceSetting::kDefault)});
    }
  }
  for (const Count parameters : grid.parameters) {
    SHARDLIGHT_TRY_STATUS(check_parameters(parameters));
  }
  for (const Count parameters : grid.parameters) {
    for (const World& world : worlds) {
      visit({.parameters = parameters,
             .ranks = world.ranks,
             .stage = world.stage,
             .states = model_states(parameters, bytes, world.placements, world.ranks),
             .traffic = traffic_of(world.passes, parameters, world.ranks)});
    }
  }
  return {};
}

}  // namespace shardlight::plan
