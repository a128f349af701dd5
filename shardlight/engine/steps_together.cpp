#include "shardlight/engine/steps_together.h"

#include <ATen/core/TensorBody.h>

#include <utility>

namespace shardlight::engine {

StepsTogether::StepsTogether(std::string name, std::span<const Segment> segments)
    : name_(std::move(name)), segments_(segments) {
  for (const Segment& segment : segments) {
    segment.value.requires_grad_();
    memory_.push_back(segment.value.const_data_ptr());
  }
}

// Kernels know one divisor a step. Units whose gradients the user changed have none; then all are
// divided here.
Status StepsTogether::step(std::span<const std::size_t> taking_part, const Factors& factors) {
  const bool first = taking_part_.empty();
  for (const std::size_t i : taking_part) {
    segments_[i].value.mutable_grad() = segments_[i].gradient;
  }
  if (first) {
    divisor_ = factors.divisor;
  } else if (factors.divisor != divisor_) {
    if (divisor_) divide(taking_part_, *std::exchange(divisor_, std::nullopt));
    if (factors.divisor) divide(taking_part, *factors.divisor);
  }
  taking_part_.insert(taking_part_.end(), taking_part.begin(), taking_part.end());
  return {};
}

Status StepsTogether::end_step(double lr_factor) {
  SHARDLIGHT_TRY_STATUS(step_all(lr_factor, std::exchange(divisor_, std::nullopt)));
  for (const std::size_t i : std::exchange(taking_part_, {})) SHARDLIGHT_TRY_STATUS(take_back(i));
  return {};
}

void StepsTogether::divide(std::span<const std::size_t> segments, double divisor) const {
  for (const std::size_t i : segments) segments_[i].value.mutable_grad().div_(divisor);
}

// Both lie in memory of the engine's, which goes on to be used.
Status StepsTogether::take_back(std::size_t i) const {
  const Segment& segment = segments_[i];
  segment.value.mutable_grad().reset();
  if (segment.value.const_data_ptr() != memory_[i]) {
    return user_error("optimizer", name_,
                      "one that changes values in place and sets no other memory");
  }
  if (keeps_gradient(segment)) {
    return user_error("optimizer", name_,
                      "one that keeps no .grad after its step but a clone() of it");
  }
  return {};
}

}  // namespace shardlight::engine
