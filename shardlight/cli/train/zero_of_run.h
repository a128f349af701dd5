// What the config's section zero means in the layout's, the plan's and the exchange's own values.
// Without torch: what is predicted of a run and what its ranks do follow from the same. Pure; any
// thread.
#pragma once

#include "shardlight/cli/train/train_config.h"
#include "shardlight/comm/reduce_order.h"
#include "shardlight/layout/placement.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::cli {

// Some placement is not the stage's.
bool has_own_placements(const ZeroConfig& zero);
// The stage's row with what the config puts in its place. Errors (user): as placements_of_stage().
Result<layout::Placements> placements_of_run(const TrainConfig& config);

// As the config says it; `reproducible`, which adds in a tree of its own, has none.
comm::ReduceOrder reduce_order_of(const ZeroConfig& zero);
plan::ReduceSetting reduce_setting_of(const ZeroConfig& zero);

// What `reduce` is by default in this run, by its name in the config.
std::string default_reduce(const TrainConfig& config, const layout::Placements& placements);

}  // namespace shardlight::cli
