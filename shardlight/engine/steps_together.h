// A SegmentOptimizer whose class steps all its tensors in one call, as those of torch.optim do in
// C++ and Python: what takes part gets its .grad, unit by unit, and end_step() steps.
// As SegmentOptimizer.
#pragma once

#include "shardlight/engine/segment_optimizer.h"

namespace shardlight::engine {

class StepsTogether : public SegmentOptimizer {
 public:
  Status step(std::span<const std::size_t> taking_part, const Factors& factors) final;
  Status end_step(double lr_factor) final;
  bool by_unit() const final { return false; }

 protected:
  // `name` is the class's, for errors.
  StepsTogether(std::string name, std::span<const Segment> segments);

  const std::string& name() const { return name_; }
  std::span<const Segment> segments() const { return segments_; }

 private:
  // Steps what has a .grad, which is to be divided by `divisor` first where there is one.
  virtual Status step_all(double lr_factor, std::optional<double> divisor) = 0;
  // Whether somebody has the segment's gradient still, whose memory goes on to be used.
  virtual bool keeps_gradient(const Segment& segment) const = 0;
  void divide(std::span<const std::size_t> segments, double divisor) const;
  Status take_back(std::size_t segment) const;

  std::string name_;
  std::span<const Segment> segments_;
  std::vector<const void*> memory_;  // of values, by segment
  std::vector<std::size_t> taking_part_;
  std::optional<double> divisor_;
};

}  // namespace shardlight::engine
