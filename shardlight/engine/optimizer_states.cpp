#include "shardlight/engine/optimizer_states.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/rounding.h"

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

StepSettings settings_of(const Optimizer& optimizer) {
  return std::visit(
      [](const auto& x) { return StepSettings{.lr = x.lr, .weight_decay = x.weight_decay}; },
      optimizer);
}

bool matches(const ParameterGroup& group, const layout::Parameter& parameter) {
  return std::ranges::any_of(group.patterns, [&](const std::string& pattern) {
    return std::ranges::any_of(parameter.names, [&](const std::string& name) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
  });
}

// The mean, then the clip, each rounded, as two passes over a whole gradient would.
void multiply(std::span<float> values, double mean, double clip) {
  if (mean == 1 && clip == 1) return;
  const auto first = static_cast<float>(mean);
  const auto second = static_cast<float>(clip);
  for (float& value : values) value = value * first * second;
}

// The kernels divide on their way, which costs no pass of its own and has the same bits where the
// factor is a power of two.
std::optional<at::Tensor> divisor_of(const Optimizer& optimizer, const StepFactors& factors) {
  if (std::holds_alternative<Lion>(optimizer)) return std::nullopt;
  int exponent = 0;
  const bool power_of_two = std::frexp(factors.mean, &exponent) == 0.5;
  if (!power_of_two || factors.mean == 1 || factors.clip != 1) return std::nullopt;
  return at::full({}, 1 / factors.mean, at::kFloat);
}

void step_lion(const Lion& lion, const StepSettings& settings, const at::Tensor& value,
               const at::Tensor& gradient, const at::Tensor& momentum) {
  value.mul_(1 - settings.lr * settings.weight_decay);
  const at::Tensor direction = momentum.mul(lion.beta1).add_(gradient, 1 - lion.beta1).sign_();
  value.sub_(direction, settings.lr);
  momentum.mul_(lion.beta2).add_(gradient, 1 - lion.beta2);
}

at::Tensor view_of(const float* data, std::int64_t elements) {
  return at::from_blob(const_cast<float*>(data), {elements}, at::kFloat);
}

}  // namespace

// Segments that one call of a kernel steps.
struct OptimizerStates::Batch {
  StepSettings settings;
  bool first = false;  // of their steps; only SGD's momentum asks
  std::vector<at::Tensor> values = {}, gradients = {}, steps = {};
  std::vector<std::vector<at::Tensor>> states = {};  // by state
};

OptimizerStates::OptimizerStates(const ModelLayout& layout, const Optimizer& optimizer)
    : layout_(&layout),
      optimizer_(optimizer),
      state_names_(states_of(optimizer)),
      settings_(layout.table.size(), settings_of(optimizer)),
      steps_(layout.table.size()),
      units_(layout.units.size()) {}

Result<OptimizerStates> OptimizerStates::create(const ModelLayout& layout,
                                                const Optimizer& optimizer,
                                                const std::vector<ParameterGroup>& groups,
                                                memory::Account& account) {
  const at::DisableRecordFunctionGuard unrecorded;
  OptimizerStates states(layout, optimizer);
  SHARDLIGHT_TRY_STATUS(states.settle_groups(groups));
  for (layout::UnitIndex index = 0; index < layout.units.size(); ++index) {
    if (!layout.units[index].trainable) continue;
    UnitStates& unit = states.units_[index];
    const Count elements = layout.stepped.slice(index, layout.rank).size();
    const Bytes bytes(elements.value() * static_cast<std::int64_t>(sizeof(float)));
    if (layout.units[index].dtype != layout::DType::kFloat32) {
      SHARDLIGHT_TRY(unit.master, memory::Buffer::zeros(account, memory::Tag::kMaster, bytes));
    }
    for (std::size_t i = 0; i < states.states(); ++i) {
      SHARDLIGHT_TRY(auto buffer, memory::Buffer::zeros(account, memory::Tag::kOptimizer, bytes));
      unit.buffers.push_back(std::move(buffer));
    }
    for (const layout::SliceRow& row : layout.stepped.rows_of(index, layout.rank)) {
      Segment segment{.parameter = row.parameter,
                      .offset = row.slice_offset.value(),
                      .elements = row.range.size().value(),
                      .value = {},
                      .gradient = {},
                      .step = at::zeros({}, at::kFloat),
                      .states = {}};
      for (const memory::Buffer& buffer : unit.buffers) {
        segment.states.push_back(
            view_of(buffer.floats().data() + segment.offset, segment.elements));
      }
      unit.segments.push_back(std::move(segment));
    }
  }
  return states;
}

Status OptimizerStates::settle_groups(const std::vector<ParameterGroup>& groups) {
  std::vector<bool> taken(settings_.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    bool any = false;
    for (layout::ParameterIndex p = 0; p < settings_.size(); ++p) {
      if (!matches(groups[i], layout_->table[p])) continue;
      any = true;
      if (taken[p]) continue;
      taken[p] = true;
      settings_[p].lr = groups[i].lr.value_or(settings_[p].lr);
      settings_[p].weight_decay = groups[i].weight_decay.value_or(settings_[p].weight_decay);
    }
    if (!any) {
      return user_error("groups[" + std::to_string(i) + "].patterns", groups[i].patterns.front(),
                        "patterns that some parameter's name has");
    }
  }
  return {};
}

void OptimizerStates::adopt(layout::UnitIndex index, std::span<const std::byte> parameters) {
  const std::span<float> master = units_[index].master.floats();
  if (master.empty()) return;
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unrecorded;
  const auto elements = static_cast<std::int64_t>(master.size());
  const at::ScalarType type = scalar_type_of(layout_->units[index].dtype);
  take_changed(view_of(master.data(), elements),
               at::from_blob(const_cast<std::byte*>(parameters.data()), {elements}, type));
}

void OptimizerStates::step(layout::UnitIndex index, std::span<std::byte> parameters,
                           std::span<float> gradients, const StepFactors& factors,
                           const std::vector<bool>& used) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unrecorded;
  const auto divisor = divisor_of(optimizer_, factors);
  if (!divisor) multiply(gradients, factors.mean, factors.clip);
  const std::span<float> master = units_[index].master.floats();
  auto* const values = master.empty() ? reinterpret_cast<float*>(parameters.data()) : master.data();
  std::vector<Batch> batches;
  for (Segment& segment : units_[index].segments) {
    if (!used[segment.parameter]) continue;
    if (!segment.value.defined()) {
      segment.value = view_of(values + segment.offset, segment.elements);
      segment.gradient = view_of(gradients.data() + segment.offset, segment.elements);
    }
    StepSettings settings = settings_[segment.parameter];
    settings.lr *= factors.lr;
    const bool first = steps_[segment.parameter] == 0;
    auto batch = std::ranges::find_if(batches, [&](const Batch& other) {
      return other.settings == settings && other.first == first;
    });
    if (batch == batches.end()) {
      batches.push_back({.settings = settings, .first = first});
      batch = std::prev(batches.end());
      batch->states.resize(states());
    }
    segment.step.fill_(static_cast<double>(steps_[segment.parameter] + 1));
    batch->values.push_back(segment.value);
    batch->gradients.push_back(segment.gradient);
    batch->steps.push_back(segment.step);
    for (std::size_t i = 0; i < states(); ++i) batch->states[i].push_back(segment.states[i]);
  }
  for (const Batch& batch : batches) run(batch, divisor);
  if (!master.empty()) {
    const auto elements = static_cast<std::int64_t>(master.size());
    at::from_blob(parameters.data(), {elements}, scalar_type_of(layout_->units[index].dtype))
        .copy_(view_of(master.data(), elements));
  }
  for (const layout::PlacedParameter& placed : layout_->units[index].parameters) {
    if (used[placed.parameter]) ++steps_[placed.parameter];
  }
}

void OptimizerStates::run(const Batch& batch, const std::optional<at::Tensor>& divisor) const {
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
                    /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, batch.first, divisor);
  } else if (const auto* lion = std::get_if<Lion>(&optimizer_)) {
    for (std::size_t i = 0; i < batch.values.size(); ++i) {
      step_lion(*lion, batch.settings, batch.values[i], batch.gradients[i], batch.states[0][i]);
    }
  }
}

std::span<const float> OptimizerStates::state(layout::UnitIndex unit, std::size_t which) const {
  return units_[unit].buffers[which].floats();
}

}  // namespace shardlight::engine
