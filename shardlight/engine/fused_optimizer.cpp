#include "shardlight/engine/fused_optimizer.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "shardlight/memory/buffer.h"

namespace shardlight::engine {
namespace {

std::vector<std::string> states_of(const Optimizer& optimizer) {
  if (const auto* sgd = std::get_if<SGD>(&optimizer)) {
    return sgd->momentum > 0 ? std::vector<std::string>{"momentum_buffer"}
                             : std::vector<std::string>{};
  }
  if (std::holds_alternative<Lion>(optimizer)) return {"exp_avg"};
  return {"exp_avg", "exp_avg_sq"};
}

// Segments that one call of a kernel steps.
struct Batch {
  StepSettings settings;
  bool first = false;  // of their steps; only SGD's momentum asks
  std::vector<at::Tensor> values = {}, gradients = {}, steps = {};
  std::vector<std::vector<at::Tensor>> states = {};  // by state
};

void step_lion(const Lion& lion, const StepSettings& settings, const at::Tensor& value,
               const at::Tensor& gradient, const at::Tensor& momentum) {
  value.mul_(1 - settings.lr * settings.weight_decay);
  const at::Tensor direction = momentum.mul(lion.beta1).add_(gradient, 1 - lion.beta1).sign_();
  value.sub_(direction, settings.lr);
  momentum.mul_(lion.beta2).add_(gradient, 1 - lion.beta2);
}

class FusedOptimizer final : public SegmentOptimizer {
 public:
  FusedOptimizer(const Optimizer& optimizer, std::span<const Segment> segments)
      : optimizer_(optimizer),
        segments_(segments),
        state_names_(states_of(optimizer)),
        kept_(segments.size()) {}

  Status take_memory(const ModelLayout& layout, memory::Account& account,
                     std::span<Carry> carried) {
    buffers_.resize(layout.units.size());
    for (layout::UnitIndex unit = 0; unit < layout.units.size(); ++unit) {
      if (!layout.units[unit].trainable) continue;
      const Count elements = layout.stepped.slice(unit, layout.rank).size();
      const Bytes bytes(elements.value() * static_cast<std::int64_t>(sizeof(float)));
      for (std::size_t i = 0; i < state_names_.size(); ++i) {
        SHARDLIGHT_TRY(auto buffer, memory::Buffer::zeros(account, memory::Tag::kOptimizer, bytes));
        if (!carried.empty()) {
          SHARDLIGHT_TRY_STATUS(carried[i].fill(unit, buffer.bytes(), layout::DType::kFloat32));
        }
        buffers_[unit].push_back(std::move(buffer));
      }
    }
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      kept_[i].step = at::zeros({}, at::kFloat);
      for (const memory::Buffer& buffer : buffers_[segments_[i].unit]) {
        kept_[i].states.push_back(at::from_blob(buffer.floats().data() + segments_[i].offset,
                                                segments_[i].value.sizes(), at::kFloat));
      }
    }
    return {};
  }

  Status step(std::span<const std::size_t> taking_part, const Factors& factors) override {
    std::optional<at::Tensor> divisor;
    if (factors.divisor) divisor = at::full({}, *factors.divisor, at::kFloat);
    for (const Batch& batch : batches_of(taking_part, factors.lr)) run(batch, divisor);
    return {};
  }
  Status end_step(double /*lr_factor*/) override { return {}; }
  bool by_unit() const override { return true; }
  bool divides() const override { return !std::holds_alternative<Lion>(optimizer_); }

  std::optional<std::vector<std::string>> state_names() const override { return state_names_; }
  std::span<const float> state(layout::UnitIndex unit, std::size_t which) const override {
    return buffers_[unit][which].floats();
  }
  std::vector<std::vector<memory::Buffer>> take_states() override {
    std::vector<std::vector<memory::Buffer>> states(state_names_.size());
    for (auto& of_unit : buffers_) {
      of_unit.resize(states.size());  // frozen units have none
      for (std::size_t i = 0; i < states.size(); ++i) states[i].push_back(std::move(of_unit[i]));
    }
    return states;
  }

 private:
  struct Kept {
    at::Tensor step;
    std::vector<at::Tensor> states;
  };

  std::vector<Batch> batches_of(std::span<const std::size_t> taking_part, double lr_factor) const {
    std::vector<Batch> batches;
    for (const std::size_t i : taking_part) {
      const Segment& segment = segments_[i];
      StepSettings settings = segment.settings;
      settings.lr *= lr_factor;
      const bool first = segment.steps == 1;
      auto batch = std::ranges::find_if(batches, [&](const Batch& other) {
        return other.settings == settings && other.first == first;
      });
      if (batch == batches.end()) {
        batches.push_back({.settings = settings, .first = first});
        batch = std::prev(batches.end());
        batch->states.resize(state_names_.size());
      }
      kept_[i].step.fill_(static_cast<double>(segment.steps));
      batch->values.push_back(segment.value);
      batch->gradients.push_back(segment.gradient);
      batch->steps.push_back(kept_[i].step);
      for (std::size_t s = 0; s < state_names_.size(); ++s) {
        batch->states[s].push_back(kept_[i].states[s]);
      }
    }
    return batches;
  }

  void run(const Batch& batch, const std::optional<at::Tensor>& divisor) const {
    const auto& [lr, weight_decay] = batch.settings;
    if (const auto* x = std::get_if<AdamW>(&optimizer_)) {
      at::_fused_adamw_(batch.values, batch.gradients, batch.states[0], batch.states[1], {},
                        batch.steps, lr, x->beta1, x->beta2, weight_decay, x->epsilon,
                        /*amsgrad=*/false, /*maximize=*/false, divisor);
    } else if (const auto* y = std::get_if<Adam>(&optimizer_)) {
      at::_fused_adam_(batch.values, batch.gradients, batch.states[0], batch.states[1], {},
                       batch.steps, lr, y->beta1, y->beta2, weight_decay, y->epsilon,
                       /*amsgrad=*/false, /*maximize=*/false, divisor);
    } else if (const auto* z = std::get_if<SGD>(&optimizer_)) {
      const auto momentum = batch.states.empty() ? std::vector<at::Tensor>{} : batch.states[0];
      at::_fused_sgd_(batch.values, batch.gradients, momentum, weight_decay, z->momentum, lr,
                      /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, batch.first,
                      divisor);
    } else if (const auto* lion = std::get_if<Lion>(&optimizer_)) {
      for (std::size_t i = 0; i < batch.values.size(); ++i) {
        step_lion(*lion, batch.settings, batch.values[i], batch.gradients[i], batch.states[0][i]);
      }
    }
  }

  Optimizer optimizer_;
  std::span<const Segment> segments_;
  std::vector<std::string> state_names_;
  std::vector<Kept> kept_;                            // by segment
  std::vector<std::vector<memory::Buffer>> buffers_;  // by unit, by state
};

}  // namespace

Result<std::unique_ptr<SegmentOptimizer>> make_fused(const ModelLayout& layout,
                                                     const Optimizer& optimizer,
                                                     std::span<const Segment> segments,
                                                     memory::Account& account,
                                                     std::span<Carry> carried) {
  auto fused = std::make_unique<FusedOptimizer>(optimizer, segments);
  SHARDLIGHT_TRY_STATUS(fused->take_memory(layout, account, carried));
  return fused;
}

}  // namespace shardlight::engine
