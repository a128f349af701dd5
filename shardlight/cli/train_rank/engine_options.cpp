#include "shardlight/cli/train_rank/engine_options.h"

namespace shardlight::cli {
namespace {

plan::ReduceSetting reduce_setting(const std::string& name) {
  if (name == "once") return plan::ReduceSetting::kOnce;
  return name == "default" ? plan::ReduceSetting::kDefault : plan::ReduceSetting::kEveryMicroStep;
}

comm::ReduceOrder reduce_order(const ZeroConfig& zero) {
  if (zero.order == "tree") return {.kind = comm::ReduceOrderKind::kTree};
  if (zero.order == "linear") return {};
  return {.kind = comm::ReduceOrderKind::kGrouped, .group = zero.group};
}

// The stage's row with what the config puts in its place.
Result<std::optional<layout::Placements>> placements_of(const TrainConfig& config) {
  const PlacementsConfig& own = config.zero.placements;
  SHARDLIGHT_TRY(layout::Placements row,
                 layout::placements_of_stage(config.zero.stage, config.ranks));
  bool any = false;
  const auto replace = [&](const std::string& wanted, layout::Placement& placement) {
    if (wanted == PlacementsConfig().parameters) return;
    placement.ways = wanted == "sharded" ? config.ranks : 1;
    any = true;
  };
  replace(own.parameters, row.parameters);
  replace(own.gradients, row.gradients);
  replace(own.optimizer, row.optimizer);
  return any ? std::optional(row) : std::nullopt;
}

}  // namespace

engine::Optimizer engine_optimizer(const OptimizerConfig& config) {
  if (config.name == "sgd") {
    return engine::SGD{
        .lr = config.lr, .momentum = config.momentum, .weight_decay = config.weight_decay};
  }
  if (config.name == "adam") {
    return engine::Adam{.lr = config.lr,
                        .beta1 = config.betas[0],
                        .beta2 = config.betas[1],
                        .epsilon = config.eps,
                        .weight_decay = config.weight_decay};
  }
  return engine::AdamW{.lr = config.lr,
                       .beta1 = config.betas[0],
                       .beta2 = config.betas[1],
                       .epsilon = config.eps,
                       .weight_decay = config.weight_decay};
}

Result<engine::Options> engine_options(const TrainConfig& config) {
  const ZeroConfig& zero = config.zero;
  engine::Options options;
  options.stage = static_cast<int>(zero.stage);
  SHARDLIGHT_TRY(options.placements, placements_of(config));
  options.shared_units = zero.shared_units;
  options.accumulation = config.batch.accumulation;
  options.reduce = reduce_setting(zero.reduce);
  options.order = reduce_order(zero);
  options.reproducible = zero.reproducible;
  options.clip_norm = zero.clip_norm;
  options.seed = static_cast<std::uint64_t>(config.seed);
  options.unit_bytes = zero.unit_bytes;
  options.bucket_bytes = zero.bucket_bytes;
  options.prefetch_bytes = zero.prefetch_bytes;
  options.gathered_bytes = zero.gathered_bytes;
  options.retain = zero.retain;
  for (const GroupConfig& group : config.optimizer.groups) {
    options.groups.push_back(
        {.patterns = group.parameters, .lr = group.lr, .weight_decay = group.weight_decay});
  }
  if (config.schedule.name == "cosine") {
    options.lr_schedule =
        engine::warmup_cosine(config.schedule.warmup, config.steps, config.schedule.floor);
  }
  Status sound = engine::check_options(engine_optimizer(config.optimizer), options);
  if (!sound) return Failure(std::move(sound).error().within("zero"));
  return options;
}

}  // namespace shardlight::cli
