#include "shardlight/cli/train_rank/engine_options.h"

#include "shardlight/cli/train/zero_of_run.h"

namespace shardlight::cli {
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
  if (has_own_placements(zero)) {
    SHARDLIGHT_TRY(options.placements, placements_of_run(config));
  }
  options.shared_units = zero.shared_units;
  options.accumulation = config.batch.accumulation;
  options.reduce = reduce_setting_of(zero);
  options.order = reduce_order_of(zero);
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
