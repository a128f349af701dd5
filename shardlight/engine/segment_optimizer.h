// What steps the segments of a rank (a segment: a parameter's part of the rank's range of a unit),
// whichever optimizer it is: torch's fused kernels, or a torch::optim class of the user's.
// OptimizerStates has the loop around it: masters, groups, means and clips, step counts. It steps
// what it is given and asks no other rank. One thread at a time. Segments outlive it and stay where
// they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/slice_table.h"
#include "shardlight/memory/buffer.h"

namespace shardlight::engine {

// What holds for a parameter: the optimizer's, or its group's.
struct StepSettings {
  double lr = 0;  // without the schedule's factor
  double weight_decay = 0;

  bool operator==(const StepSettings&) const = default;
};

struct Segment {
  layout::UnitIndex unit = 0;
  layout::ParameterIndex parameter = 0;
  std::string_view name;    // of the parameter, its first one; empty in a trial
  std::int64_t offset = 0;  // in the rank's range of the unit
  StepSettings settings;
  std::int64_t steps = 0;  // that it has taken part in, the one that is taken included
  // fp32 leaves, of one dimension but in a trial: the parameter's values, or of 16-bit parameters
  // their masters.
  at::Tensor value;
  at::Tensor gradient;  // in a step that it takes part in; its memory may be another in the next
};

class SegmentOptimizer {
 public:
  virtual ~SegmentOptimizer() = default;
  SegmentOptimizer() = default;
  SegmentOptimizer(const SegmentOptimizer&) = delete;
  SegmentOptimizer& operator=(const SegmentOptimizer&) = delete;
  SegmentOptimizer(SegmentOptimizer&&) = delete;
  SegmentOptimizer& operator=(SegmentOptimizer&&) = delete;

  // What a step's factors make of the settings and the gradients.
  struct Factors {
    double lr = 1;  // of every lr
    // Gradients are to be divided by it, else they are means as they are; only where divides().
    std::optional<double> divisor;
  };
  // Segments, by index, which take part in the step, each once a step; the engine gives those of a
  // unit together. The others have no gradient. Gradients may be overwritten.
  virtual Status step(std::span<const std::size_t> taking_part, const Factors& factors) = 0;
  // All units had their turn, or had none.
  virtual Status end_step(double lr_factor) = 0;
  // Whether values are stepped as step() returns; else only end_step() does it.
  virtual bool by_unit() const = 0;
  virtual bool divides() const { return false; }
  // Of the settings that the next step uses, where they can change between steps: ranks compare it
  // before each. Errors (user): settings that cannot be used.
  virtual Result<std::uint64_t> settings_hash() { return 0; }

  // The names of its states, each an fp32 value for an element of a rank's range of a unit; none
  // where only it knows what it keeps.
  virtual std::optional<std::vector<std::string>> state_names() const { return std::nullopt; }
  virtual std::span<const float> state(layout::UnitIndex /*unit*/, std::size_t /*which*/) const {
    return {};
  }
  // The memory of its states, by state, then by unit; it is not used after that. None where only it
  // knows them.
  virtual std::vector<std::vector<memory::Buffer>> take_states() { return {}; }
};

// An optimizer with its options before it has anything to step. Any thread.
class OptimizerClass {
 public:
  virtual ~OptimizerClass() = default;
  OptimizerClass() = default;
  OptimizerClass(const OptimizerClass&) = delete;
  OptimizerClass& operator=(const OptimizerClass&) = delete;
  OptimizerClass(OptimizerClass&&) = delete;
  OptimizerClass& operator=(OptimizerClass&&) = delete;

  // Over segments that have their values. Errors (user): what it refuses.
  virtual Result<std::unique_ptr<SegmentOptimizer>> over(
      std::span<const Segment> segments) const = 0;
};

}  // namespace shardlight::engine
