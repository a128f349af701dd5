// The factor that keeps gradients in fp16 from vanishing: a power of two, halved when a step is
// skipped for a gradient that is not finite, doubled after a while without. The rule is
// torch.amp.GradScaler's. All ranks decide alike, as they skip alike. A value.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "shardlight/engine/options.h"

namespace shardlight::engine {

class LossScale {
 public:
  explicit LossScale(const LossScaling& scaling) : scaling_(scaling), scale_(scaling.initial) {}

  double value() const { return scale_; }

  void end_step(bool skipped) {
    if (skipped) {
      scale_ = std::max(scale_ / 2, 1.0);
      steps_since_ = 0;
    } else if (++steps_since_ == scaling_.growth_interval) {
      // Beyond that the scaled loss itself is not finite.
      scale_ = std::min(scale_ * 2, kMost);
      steps_since_ = 0;
    }
  }

 private:
  static constexpr double kMost = 0x1p100;

  LossScaling scaling_;
  double scale_;
  std::int64_t steps_since_ = 0;
};

// The loss times the scale, whose backward calls `on_backward`: so it is known of each backward
// whether its loss was scaled.
at::Tensor scaled_loss(const at::Tensor& loss, double scale,
                       const std::function<void()>& on_backward);

}  // namespace shardlight::engine
