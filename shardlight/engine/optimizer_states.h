// What this rank steps, and the loop around the step: masters of 16-bit parameters, groups, means
// and clips, which parameters take part and how often they did. What a step does to a segment (a
// parameter's part of the rank's range of a unit) is its SegmentOptimizer's.
// One thread at a time; one call a unit, in any order of units.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "shardlight/comm/sum.h"
#include "shardlight/engine/carry.h"
#include "shardlight/engine/model_layout.h"
#include "shardlight/engine/segment_optimizer.h"
#include "shardlight/engine/torch_meter.h"
#include "shardlight/memory/buffer.h"

namespace shardlight::engine {

// What a step multiplies by: raw sums of gradients by mean and, what comes of that, by clip; every
// lr by lr.
struct StepFactors {
  double mean = 1;
  double clip = 1;
  double lr = 1;
};

// A rank's memory of states, once their owner has gone, and counts.
struct StatesLeft {
  std::vector<memory::Buffer> masters;              // by unit
  std::vector<std::vector<memory::Buffer>> states;  // by state, then by unit
  std::vector<std::int64_t> steps;                  // by parameter
};

// States of parameters that an engine had before, on their way into new ones.
struct CarriedStates {
  Carry masters;
  std::vector<Carry> states;        // by state
  std::vector<std::int64_t> steps;  // by parameter; 0 where it is new
};

// Errors (user): a group's pattern that no parameter has.
Status check_patterns(const layout::ParameterTable& table,
                      const std::vector<ParameterGroup>& groups);

class OptimizerStates {
 public:
  // The parameters of the rank's range of a unit, in the unit's dtype; never elsewhere later.
  using ParametersOf = std::function<std::span<std::byte>(layout::UnitIndex unit)>;
  // Masters are the first values, states zeros, but for what is `carried`. Layout, account and
  // meter outlive it. Errors: no memory; those of check_patterns; what the optimizer refuses
  // (user).
  static Result<OptimizerStates> create(const ModelLayout& layout, const Optimizer& optimizer,
                                        const std::vector<ParameterGroup>& groups,
                                        const ParametersOf& parameters, memory::Account& account,
                                        const TorchMeter& meter, CarriedStates* carried = nullptr);

  // The parameters of a unit are others than the last step left: masters follow them where they
  // differ from the masters, rounded.
  void adopt(layout::UnitIndex unit);
  // Steps the rank's range of a unit. `sums` are the raw ones of that range; of fp32 it may
  // overwrite them, others it widens first; they stay until end_step(). Parameters that are not
  // `used` (by table index) are left as they are, with their states and step counts. The masters
  // are stepped, or are to be in end_step() unless by_unit(); write() then takes them over.
  Status step(layout::UnitIndex unit, const comm::SumSpan& sums, const StepFactors& factors,
              const std::vector<bool>& used);
  Status end_step(const StepFactors& factors);
  bool by_unit() const { return optimizer_->by_unit(); }
  // As SegmentOptimizer has it.
  Result<std::uint64_t> settings_hash() { return optimizer_->settings_hash(); }
  // 16-bit parameters become the rounding of their stepped masters.
  void write(layout::UnitIndex unit);

  // The states that the optimizer has an element, and one of them for the rank's range of a unit;
  // none where only the optimizer knows them.
  std::optional<std::vector<std::string>> state_names() const { return optimizer_->state_names(); }
  std::span<const float> state(layout::UnitIndex unit, std::size_t which) const {
    return optimizer_->state(unit, which);
  }
  // The fp32 values that a unit of 16-bit parameters is the rounding of; empty for fp32.
  std::span<float> master(layout::UnitIndex unit) const { return units_[unit].master.floats(); }
  // Steps that a parameter has taken part in.
  std::int64_t steps_of(layout::ParameterIndex parameter) const { return steps_[parameter]; }

  // Takes them apart: nothing is stepped after it.
  StatesLeft leave();

 private:
  struct UnitStates {
    std::span<std::byte> parameters;
    memory::Buffer master;                // of 16-bit parameters
    std::size_t first = 0, segments = 0;  // which of segments_
    at::Tensor widened;                   // 16-bit gradients in fp32, while they are stepped with
  };

  OptimizerStates(const ModelLayout& layout, const TorchMeter& meter);
  Status take_segments(const ParametersOf& parameters, const std::vector<StepSettings>& settings,
                       memory::Account& account, CarriedStates* carried);
  // The sums in fp32, in their place if they are.
  std::span<float> widened(layout::UnitIndex unit, const comm::SumSpan& sums);
  // The parameters of a unit as a tensor in their dtype.
  at::Tensor rounded(layout::UnitIndex unit) const;

  const ModelLayout* layout_;
  const TorchMeter* meter_;
  std::vector<std::int64_t> steps_;  // by parameter
  std::vector<UnitStates> units_;
  std::vector<Segment> segments_;
  std::unique_ptr<SegmentOptimizer> optimizer_;
  std::vector<std::size_t> taking_part_;  // of a unit's segments, while it is stepped
};

}  // namespace shardlight::engine
