// The optimizer's states of what this rank steps, and the step itself: torch's own fused kernels
// over segments (a parameter's part of the rank's range of a unit). Cuts fall on whole vectors
// counted from the parameter's start, so the kernels give the bits they give on whole parameters
// (docs/layout.md). One thread at a time; one call a unit, in any order of units.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "shardlight/engine/model_layout.h"
#include "shardlight/memory/buffer.h"

namespace shardlight::engine {

// What holds for a parameter: the optimizer's, or its group's.
struct StepSettings {
  double lr = 0;
  double weight_decay = 0;

  bool operator==(const StepSettings&) const = default;
};

// What a step multiplies by: raw sums of gradients by mean and, what comes of that, by clip; every
// lr by lr.
struct StepFactors {
  double mean = 1;
  double clip = 1;
  double lr = 1;
};

class OptimizerStates {
 public:
  // The layout outlives it. Errors: no memory; a group's pattern that no parameter has (user).
  static Result<OptimizerStates> create(const ModelLayout& layout, const Optimizer& optimizer,
                                        const std::vector<ParameterGroup>& groups,
                                        memory::Account& account);

  // The values of the rank's range of a unit are others than the last step left, or the first ones:
  // masters follow them where they differ from the masters, rounded.
  void adopt(layout::UnitIndex unit, std::span<const std::byte> parameters);
  // Steps the rank's range of a unit: `parameters`, in the unit's dtype, and `gradients`, raw sums
  // that it may overwrite, are that range; parameters that are not `used` (by table index) are left
  // as they are, with their states and step counts. The spans may not move from one step to the
  // next.
  void step(layout::UnitIndex unit, std::span<std::byte> parameters, std::span<float> gradients,
            const StepFactors& factors, const std::vector<bool>& used);

  // How many states the optimizer has an element, and one of them for the rank's range of a unit.
  std::size_t states() const { return state_names_.size(); }
  const std::vector<std::string>& state_names() const { return state_names_; }
  std::span<const float> state(layout::UnitIndex unit, std::size_t which) const;
  // The fp32 values that a unit of 16-bit parameters is the rounding of; empty for fp32.
  std::span<float> master(layout::UnitIndex unit) const { return units_[unit].master.floats(); }
  // Steps that a parameter has taken part in.
  std::int64_t steps_of(layout::ParameterIndex parameter) const { return steps_[parameter]; }

 private:
  struct Segment {
    layout::ParameterIndex parameter;
    std::int64_t offset;  // in the rank's range
    std::int64_t elements;
    at::Tensor value, gradient, step;
    std::vector<at::Tensor> states;
  };
  struct UnitStates {
    memory::Buffer master;                // of 16-bit parameters
    std::vector<memory::Buffer> buffers;  // by state
    std::vector<Segment> segments;
  };
  struct Batch;

  OptimizerStates(const ModelLayout& layout, const Optimizer& optimizer);
  Status settle_groups(const std::vector<ParameterGroup>& groups);
  void run(const Batch& batch, const std::optional<at::Tensor>& divisor) const;

  const ModelLayout* layout_;
  Optimizer optimizer_;
  std::vector<std::string> state_names_;
  std::vector<StepSettings> settings_;  // by parameter
  std::vector<std::int64_t> steps_;     // by parameter
  std::vector<UnitStates> units_;
};

}  // namespace shardlight::engine
