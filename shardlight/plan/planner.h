// The plan of a run on paper: from a model and a request to every number `shardlight plan` shows,
// for stages 0 to 3 side by side. A pure function; holds nothing, may run on any thread.
// What the numbers mean and leave out: docs/memory.md.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/plan/activations.h"
#include "shardlight/plan/collective_time.h"
#include "shardlight/plan/ledger.h"
#include "shardlight/plan/model.h"
#include "shardlight/plan/residuals.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::plan {

inline constexpr std::int64_t kMaxAccumulationSteps = 1'000'000;

// Tokens a rank sees in one micro-step.
struct Batch {
  std::int64_t micro_batch = 1;  // sequences
  std::int64_t sequence = 1;     // tokens each
};

struct Compute {
  double peak_flops = 0;    // of one rank's device, a second
  double efficiency = 0.4;  // share of the peak that training reaches
};

// How ranks exchange: whether a gather needs every rank to take part in the same order.
enum class Exchange { kUnknown, kOneSided, kCollective };
std::string_view name_of(Exchange exchange);

struct PlanRequest {
  Model model;
  std::int64_t ranks = 1;
  Precision precision = Precision::kMixed;
  GradientDtype grad_dtype = GradientDtype::kCompute;
  Optimizer optimizer = Optimizer::kAdam;
  std::int64_t accumulation_steps = 1;  // gradient accumulation
  ReduceSetting reduce = ReduceSetting::kDefault;
  std::optional<Batch> batch;  // for activations and compute time
  Checkpointing checkpointing = Checkpointing::kNone;
  ActivationRule activation_rule = ActivationRule::kKorthikanti;
  std::optional<Bytes> unit_bytes;  // as layout::UnitOptions; needs a model with a table
  std::optional<Bytes> device_memory;
  std::optional<Interconnect> interconnect;
  std::optional<Compute> compute;
  // What the advice should weigh.
  Exchange exchange = Exchange::kUnknown;
  bool dynamic_control_flow = false;  // ranks may touch parameters in different orders
  bool wants_replicas = false;        // for recovery or checkpoint deduplication
};

struct StagePlan {
  int stage = 0;
  layout::Placements placements;
  ModelStates states;
  double compression_ratio = 1;
  Residuals residuals;
  Share peak;  // states and every line that is known
  Traffic traffic;
  std::optional<Seconds> traffic_time;
  std::optional<bool> fits;            // the peak, in the device memory
  std::optional<Count> largest_model;  // whose states alone fit
};

struct Plan {
  PlanRequest request;
  StateBytes bytes;
  std::optional<Activations> activations;
  std::optional<std::vector<layout::Unit>> units;
  std::array<StagePlan, layout::kStages> stages;
  std::vector<StageOneSource> stage_one_sources;
  std::optional<Seconds> compute_time;  // of one optimizer step on one rank

  // Whether no line is missing from the stages' peaks.
  bool peaks_complete() const { return units && activations && activations->temporary(); }
};

// Errors (user), by the field: `parameters` of the model, `ranks`, `accumulation_steps`,
// `unit_bytes`, `device_memory`, `bytes_per_second` of the interconnect, `peak_flops`,
// `efficiency`, and those of activations() (`micro_batch`, `sequence`, `checkpointing`).
Result<Plan> make_plan(PlanRequest request);

// Parameters a token passes through: all of a dense model, and of a mixture of experts those
// outside the experts and its share of the experts'.
Count active_parameters(const Model& model);

}  // namespace shardlight::plan
