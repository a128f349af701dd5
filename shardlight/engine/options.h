// What a run of the engine is told: which optimizer, which placements, how gradients are added, how
// much may be gathered. Plain structs without torch; every field says its unit and what is allowed.
// check_options() judges them all, and the engine does so before it touches the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shardlight/engine/ranks.h"
#include "shardlight/layout/placement.h"
#include "shardlight/plan/precision.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::engine {

// AdamW, Adam and SGD: the hyper-parameters and the arithmetic of torch's fused optimizers.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // decoupled
};

struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // added to the gradient
};

struct SGD {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
};

// Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), Algorithm 2.
struct Lion {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // decoupled
};

class OptimizerClass;  // segment_optimizer.h

// An element-wise class of torch.optim, or of the user's own, as torch_optimizer() makes it
// (torch_optimizer.h).
struct TorchOptimizer {
  std::string name;      // of the class
  std::string settings;  // as text, for ranks to compare
  // What parameters have that are in no group; none where the class has no such option.
  std::optional<double> lr, weight_decay;
  bool elementwise = false;  // it is known to be, so that the engine does not try it out
  std::shared_ptr<const OptimizerClass> optimizer_class;
  std::int64_t state_bytes = 0;  // of an element; found by the engine, which steps it once
};

using Optimizer = std::variant<AdamW, Adam, SGD, Lion, TorchOptimizer>;

// Parameters that differ from the optimizer's settings; a parameter is in the first group that
// has a pattern for it, or in none.
struct ParameterGroup {
  std::vector<std::string> patterns;  // of names, as a shell's: "*.bias", "h.?.ln*"
  std::optional<double> lr;
  std::optional<double> weight_decay;
};

// The factor of every group's lr at a step, from 0 on.
using LrSchedule = std::function<double(std::int64_t step)>;

// Rises linearly over `warmup` steps, then falls along a cosine to `floor` at step `total` and
// stays there.
LrSchedule warmup_cosine(std::int64_t warmup, std::int64_t total, double floor = 0.1);

// Of the loss, where the model has fp16 parameters.
struct LossScaling {
  // A power of two from 1 to 2^100; at first the greatest that fp16 itself can hold.
  double initial = 32768;
  std::int64_t growth_interval = 2000;  // steps without one that was skipped, until it doubles
};

inline constexpr std::int64_t kMaxAccumulation = 1'000'000;

// To find faults in programs, and in the engine. No result may change by a bit.
struct Debugging {
  bool poison = false;  // memory of units that went away is filled with NaN
  // Calls of the exchange start late by a random time up to `delay_most`.
  std::optional<std::uint64_t> delay_seed;
  Seconds delay_most{0.001};
};

struct Options {
  int stage = 0;                                 // ZeRO's, 0 to 3; a row of three placements
  std::optional<layout::Placements> placements;  // instead of the stage's; ways 1 or all ranks
  // Sharded parameters are read where all ranks of the host share them, and nothing is gathered.
  bool shared_units = false;

  std::int64_t accumulation = 1;  // backward passes a step; gradients are their mean over all ranks
  plan::ReduceSetting reduce = plan::ReduceSetting::kDefault;
  comm::ReduceOrder order = {};  // in which ranks are added
  // Of sums of gradients, as they are kept and sent: fp32, or the parameters' own dtype, in which
  // each addition is rounded: half the memory and traffic of 16-bit parameters' sums.
  plan::GradientDtype grad_dtype = plan::GradientDtype::kFp32;
  bool reproducible = false;  // the same bits for any split of the batch over ranks
  LossScaling loss_scaling;
  std::optional<double> clip_norm;    // the most that the global 2-norm of the gradients may be
  std::optional<std::uint64_t> seed;  // torch's generator is set by (seed, step, micro-batch)

  Bytes unit_bytes{1 << 20};  // as layout::UnitOptions
  Bytes bucket_bytes{0};      // gradients that may wait for their turn while backward goes on
  Bytes prefetch_bytes{0};    // of the gathered ones, how much may be fetched ahead
  // The most that gathered parameters take; nothing: the two largest units, and more where one
  // operator needs more.
  std::optional<Bytes> gathered_bytes;
  bool retain = true;  // false: a unit is released as soon as another one is used

  std::vector<ParameterGroup> groups;
  LrSchedule lr_schedule;  // nothing: 1
  Seconds deadline{300};   // of every wait for another rank

  // Each step ends with rank 0's buffers on all ranks; else each rank's are its own once trained.
  bool synchronize_buffers = false;
  // Steps, from the first on, after which ranks that step the same parameters by themselves compare
  // them.
  std::int64_t sanity_steps = 2;
  Debugging debug;

  // Nothing: ranks_of_host() (ranks.h).
  std::optional<Ranks> ranks;
};

// A user error that names the field, as in `clip_norm`.
Status check_options(const Optimizer& optimizer, const Options& options);

// The placements of options, for a world of this many ranks. Errors: as placements_of_stage; a
// state that is cut into neither 1 nor `world` parts.
Result<layout::Placements> placements_of(const Options& options, std::int64_t world);

}  // namespace shardlight::engine
