#include "shardlight/engine/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

namespace shardlight::engine {
namespace {

std::string text_of(double value) {
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.begin(), text.end(), value).ptr};
}

Status check_at_least(const char* field, double value, double least) {
  if (std::isfinite(value) && value >= least) return {};
  return user_error(field, text_of(value), "a finite number from " + text_of(least));
}

Status check_below_one(const char* field, double value) {
  if (value >= 0 && value < 1) return {};
  return user_error(field, text_of(value), "a number from 0 to below 1");
}

struct CheckOptimizer {
  Status adam(double lr, double beta1, double beta2, double epsilon, double weight_decay) const {
    SHARDLIGHT_TRY_STATUS(check_at_least("lr", lr, 0));
    SHARDLIGHT_TRY_STATUS(check_below_one("beta1", beta1));
    SHARDLIGHT_TRY_STATUS(check_below_one("beta2", beta2));
    SHARDLIGHT_TRY_STATUS(check_at_least("epsilon", epsilon, 0));
    return check_at_least("weight_decay", weight_decay, 0);
  }
  Status operator()(const AdamW& x) const {
    return adam(x.lr, x.beta1, x.beta2, x.epsilon, x.weight_decay);
  }
  Status operator()(const Adam& x) const {
    return adam(x.lr, x.beta1, x.beta2, x.epsilon, x.weight_decay);
  }
  Status operator()(const Lion& x) const {
    return adam(x.lr, x.beta1, x.beta2, /*epsilon=*/0, x.weight_decay);
  }
  Status operator()(const SGD& x) const {
    SHARDLIGHT_TRY_STATUS(check_at_least("lr", x.lr, 0));
    SHARDLIGHT_TRY_STATUS(check_at_least("momentum", x.momentum, 0));
    return check_at_least("weight_decay", x.weight_decay, 0);
  }
  // Its values are the class's to judge.
  Status operator()(const TorchOptimizer& x) const {
    if (x.optimizer_class) return {};
    return user_error("optimizer", x.name, "one that torch_optimizer() made");
  }
};

// What a class of torch.optim has no option for cannot be set.
Status check_settable(const Optimizer& optimizer, const Options& options) {
  const auto* torch = std::get_if<TorchOptimizer>(&optimizer);
  if (torch == nullptr) return {};
  if (options.lr_schedule && !torch->lr) {
    return user_error("lr_schedule", "given", "none, as " + torch->name + " has no lr");
  }
  for (std::size_t i = 0; i < options.groups.size(); ++i) {
    const auto& [patterns, lr, weight_decay] = options.groups[i];
    const std::string group = "groups[" + std::to_string(i) + "].";
    if (lr && !torch->lr) {
      return user_error(group + "lr", text_of(*lr), "none, as " + torch->name + " has no lr");
    }
    if (weight_decay && !torch->weight_decay) {
      return user_error(group + "weight_decay", text_of(*weight_decay),
                        "none, as " + torch->name + " has no weight_decay");
    }
  }
  return {};
}

Status check_groups(const std::vector<ParameterGroup>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string prefix = "groups[" + std::to_string(i) + "]";
    const auto in_group = [&](Status status) -> Status {
      if (status) return {};
      return Failure(std::move(status).error().within(prefix));
    };
    if (groups[i].patterns.empty()) {
      return user_error(prefix + ".patterns", "none", "at least one pattern of names");
    }
    SHARDLIGHT_TRY_STATUS(in_group(check_at_least("lr", groups[i].lr.value_or(0), 0)));
    SHARDLIGHT_TRY_STATUS(
        in_group(check_at_least("weight_decay", groups[i].weight_decay.value_or(0), 0)));
  }
  return {};
}

Status check_bytes(const char* field, Bytes bytes) {
  if (bytes >= Bytes(0)) return {};
  return user_error(field, std::to_string(bytes.value()), "0 bytes or more");
}

bool power_of_two(std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

Status check_loss_scaling(const LossScaling& scaling) {
  constexpr double kMost = 0x1p100;
  int exponent = 0;
  if (scaling.initial < 1 || scaling.initial > kMost ||
      std::frexp(scaling.initial, &exponent) != 0.5) {
    return user_error("loss_scaling.initial", text_of(scaling.initial),
                      "a power of two from 1 to 2^100");
  }
  if (scaling.growth_interval >= 1) return {};
  return user_error("loss_scaling.growth_interval", std::to_string(scaling.growth_interval),
                    "1 step or more");
}

Status check_reproducible(const Options& options) {
  if (!options.reproducible) return {};
  if (!power_of_two(options.accumulation)) {
    return user_error("accumulation", std::to_string(options.accumulation),
                      "a power of two with `reproducible`, so that a rank's micro-batches are a "
                      "subtree of all");
  }
  if (options.reduce == plan::ReduceSetting::kEveryMicroStep && options.accumulation > 1) {
    return user_error("reduce", "every micro-step", "once with `reproducible`");
  }
  if (options.order != comm::ReduceOrder{}) {
    return user_error("order", comm::text_of(options.order),
                      "none with `reproducible`, which adds in a tree");
  }
  return {};
}

}  // namespace

Status check_options(const Optimizer& optimizer, const Options& options) {
  SHARDLIGHT_TRY_STATUS(std::visit(CheckOptimizer(), optimizer));
  if (options.accumulation < 1 || options.accumulation > kMaxAccumulation) {
    return user_error("accumulation", std::to_string(options.accumulation),
                      "a whole number from 1 to " + std::to_string(kMaxAccumulation));
  }
  if (options.grad_dtype != plan::GradientDtype::kFp32 &&
      options.grad_dtype != plan::GradientDtype::kCompute) {
    return user_error("grad_dtype", std::to_string(static_cast<int>(options.grad_dtype)),
                      "GradientDtype::kFp32 or kCompute");
  }
  SHARDLIGHT_TRY_STATUS(check_loss_scaling(options.loss_scaling));
  if (options.sanity_steps < 0) {
    return user_error("sanity_steps", std::to_string(options.sanity_steps), "0 steps or more");
  }
  if (!(options.debug.delay_most.count() >= 0)) {
    return user_error("debug.delay_most", text_of(options.debug.delay_most.count()),
                      "0 seconds or more");
  }
  const double clip_norm = options.clip_norm.value_or(1);
  if (!std::isfinite(clip_norm) || clip_norm <= 0) {
    return user_error("clip_norm", text_of(clip_norm), "a finite number above 0");
  }
  SHARDLIGHT_TRY_STATUS(check_bytes("unit_bytes", options.unit_bytes));
  SHARDLIGHT_TRY_STATUS(check_bytes("bucket_bytes", options.bucket_bytes));
  SHARDLIGHT_TRY_STATUS(check_bytes("prefetch_bytes", options.prefetch_bytes));
  SHARDLIGHT_TRY_STATUS(check_bytes("gathered_bytes", options.gathered_bytes.value_or(Bytes(0))));
  if (!(options.deadline.count() > 0)) {
    return user_error("deadline", text_of(options.deadline.count()), "more than 0 seconds");
  }
  SHARDLIGHT_TRY_STATUS(check_groups(options.groups));
  SHARDLIGHT_TRY_STATUS(check_settable(optimizer, options));
  return check_reproducible(options);
}

Result<layout::Placements> placements_of(const Options& options, std::int64_t world) {
  if (!options.placements) return layout::placements_of_stage(options.stage, world);
  const auto check = [&](const char* field, const layout::Placement& placement) -> Status {
    const bool whole_or_all = placement.ways == 1 || placement.ways == world;
    if (whole_or_all && placement.residency == layout::Residency::kDevice) return {};
    return user_error(field, std::to_string(placement.ways) + " ways",
                      "on the device in 1 or all " + std::to_string(world) + " parts");
  };
  SHARDLIGHT_TRY_STATUS(check("placements.parameters", options.placements->parameters));
  SHARDLIGHT_TRY_STATUS(check("placements.gradients", options.placements->gradients));
  SHARDLIGHT_TRY_STATUS(check("placements.optimizer", options.placements->optimizer));
  // A state may be replicated only if what is computed from it is: who steps a part has all it
  // needs, and nobody holds what it cannot keep up to date.
  const auto& placements = *options.placements;
  if (placements.gradients.sharded() && !placements.optimizer.sharded() && world > 1) {
    return user_error("placements.optimizer", "replicated", "sharded where gradients are");
  }
  if (placements.parameters.sharded() && !placements.gradients.sharded() && world > 1) {
    return user_error("placements.gradients", "replicated", "sharded where parameters are");
  }
  return placements;
}

LrSchedule warmup_cosine(std::int64_t warmup, std::int64_t total, double floor) {
  return [=](std::int64_t step) {
    if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
    const double span = static_cast<double>(std::max<std::int64_t>(1, total - warmup));
    const double done = std::min(1.0, static_cast<double>(step - warmup) / span);
    return floor + (1 - floor) * (1 + std::cos(std::numbers::pi * done)) / 2;
  };
}

}  // namespace shardlight::engine
