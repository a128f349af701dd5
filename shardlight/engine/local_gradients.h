// A rank's own gradients of one unit over the micro-steps of a step, in the dtype of its sums:
// added one after another, or, for reproducible runs, in the binary tree over the micro-batches.
// Which parameters have one is kept beside them, since a missing gradient is not a zero. One thread
// at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shardlight/comm/transport.h"
#include "shardlight/layout/unit.h"
#include "shardlight/memory/buffer.h"

namespace shardlight::engine {

class LocalGradients {
 public:
  // Sums are fp32, or of the unit's dtype. A tree over `micro_steps`, a power of two, holds log2 of
  // them levels above the first; `first` is the tag of the level that every unit has, the others
  // are unreduced. Errors: no memory.
  static Result<LocalGradients> create(memory::Account& account, const layout::Unit& unit,
                                       layout::DType dtype, memory::Tag first, bool tree,
                                       std::int64_t micro_steps);

  // Adds the gradient of the unit's member (by position) in a micro-step, which counts from 0; each
  // member once a micro-step, or not at all.
  void add(std::size_t member, std::int64_t micro_step, const at::Tensor& gradient);
  // The micro-step is over for members that had no gradient in it.
  void end_micro_step(std::int64_t micro_step);
  // The sum after the last micro-step, as parts of the unit.
  std::vector<comm::GradientPart> parts() const;
  // The sum's memory: all elements of the unit.
  comm::SumSpan sum() const { return sum_of(levels_.back()); }
  void clear();

 private:
  struct Level {
    memory::Buffer buffer;
    std::vector<bool> has;  // by member
  };

  LocalGradients(const layout::Unit& unit, layout::DType dtype)
      : unit_(&unit), dtype_(dtype), added_(unit.parameters.size()) {}
  comm::SumSpan sum_of(const Level& level) const {
    return {level.buffer.data(), dtype_, unit_->elements};
  }
  at::Tensor view(const Level& level, std::size_t member) const;
  void join(Level& level, std::size_t member, const at::Tensor& gradient);
  void carry_up(std::size_t member, std::int64_t micro_step, at::Tensor carry);

  const layout::Unit* unit_;
  layout::DType dtype_;
  // Level k holds nodes of 2^k micro-steps that wait for their right-hand sides; the last the sum.
  std::vector<Level> levels_;
  std::vector<std::int64_t> added_;  // by member: micro-steps that are done
};

}  // namespace shardlight::engine
