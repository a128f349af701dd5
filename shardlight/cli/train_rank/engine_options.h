// The engine's options from the config's settings. Errors are the engine's own, by its fields.
// Internal to shardlight-train; pure.
#pragma once

#include "shardlight/cli/train/train_config.h"
#include "shardlight/engine/options.h"

namespace shardlight::cli {

engine::Optimizer engine_optimizer(const OptimizerConfig& config);

// All but `ranks`. Errors (user): those of engine::check_options, under the config's section.
Result<engine::Options> engine_options(const TrainConfig& config);

}  // namespace shardlight::cli
