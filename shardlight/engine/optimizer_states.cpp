#include "shardlight/engine/optimizer_states.h"

#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "shardlight/engine/fused_optimizer.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/rounding.h"
#include "shardlight/engine/sum_tensor.h"

namespace shardlight::engine {
namespace {

StepSettings settings_of(const Optimizer& optimizer) {
  return std::visit(
      [](const auto& x) {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, TorchOptimizer>) {
          return StepSettings{.lr = x.lr.value_or(0), .weight_decay = x.weight_decay.value_or(0)};
        } else {
          return StepSettings{.lr = x.lr, .weight_decay = x.weight_decay};
        }
      },
      optimizer);
}

bool matches(const ParameterGroup& group, const layout::Parameter& parameter) {
  return std::ranges::any_of(group.patterns, [&](const std::string& pattern) {
    return std::ranges::any_of(parameter.names, [&](const std::string& name) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
  });
}

// By parameter.
Result<std::vector<StepSettings>> settle_groups(const layout::ParameterTable& table,
                                                const StepSettings& of_optimizer,
                                                const std::vector<ParameterGroup>& groups) {
  std::vector<StepSettings> settings(table.size(), of_optimizer);
  std::vector<bool> taken(table.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    bool any = false;
    for (layout::ParameterIndex p = 0; p < table.size(); ++p) {
      if (!matches(groups[i], table[p])) continue;
      any = true;
      if (taken[p]) continue;
      taken[p] = true;
      settings[p].lr = groups[i].lr.value_or(settings[p].lr);
      settings[p].weight_decay = groups[i].weight_decay.value_or(settings[p].weight_decay);
    }
    if (!any) {
      return user_error("groups[" + std::to_string(i) + "].patterns", groups[i].patterns.front(),
                        "patterns that some parameter's name has");
    }
  }
  return settings;
}

// The mean, then the clip, each rounded, as two passes over a whole gradient would.
void multiply(std::span<float> values, double mean, double clip) {
  if (mean == 1 && clip == 1) return;
  const auto first = static_cast<float>(mean);
  const auto second = static_cast<float>(clip);
  for (float& value : values) value = value * first * second;
}

// Kernels that divide do so on their way, which costs no pass of its own and has the same bits
// where the factor is a power of two.
std::optional<double> divisor_of(const SegmentOptimizer& optimizer, const StepFactors& factors) {
  if (!optimizer.divides()) return std::nullopt;
  int exponent = 0;
  const bool power_of_two = std::frexp(factors.mean, &exponent) == 0.5;
  if (!power_of_two || factors.mean == 1 || factors.clip != 1) return std::nullopt;
  return 1 / factors.mean;
}

at::Tensor view_of(const float* data, std::int64_t elements) {
  return at::from_blob(const_cast<float*>(data), {elements}, at::kFloat);
}

}  // namespace

Status check_patterns(const layout::ParameterTable& table,
                      const std::vector<ParameterGroup>& groups) {
  SHARDLIGHT_TRY(const auto settings, settle_groups(table, {}, groups));
  static_cast<void>(settings);
  return {};
}

OptimizerStates::OptimizerStates(const ModelLayout& layout, const TorchMeter& meter)
    : layout_(&layout), meter_(&meter), steps_(layout.table.size()), units_(layout.units.size()) {}

Result<OptimizerStates> OptimizerStates::create(const ModelLayout& layout,
                                                const Optimizer& optimizer,
                                                const std::vector<ParameterGroup>& groups,
                                                const ParametersOf& parameters,
                                                memory::Account& account, const TorchMeter& meter,
                                                CarriedStates* carried) {
  const at::DisableRecordFunctionGuard unrecorded;
  const at::NoGradGuard no_grad;
  OptimizerStates states(layout, meter);
  SHARDLIGHT_TRY(const auto settings, settle_groups(layout.table, settings_of(optimizer), groups));
  if (carried != nullptr) states.steps_ = carried->steps;
  SHARDLIGHT_TRY_STATUS(states.take_segments(parameters, settings, account, carried));
  if (const auto* torch = std::get_if<TorchOptimizer>(&optimizer)) {
    const KeptAllocations states_of_torch(meter, memory::Tag::kOptimizer);
    SHARDLIGHT_TRY(states.optimizer_, torch->optimizer_class->over(states.segments_));
  } else {
    const std::span<Carry> before =
        carried != nullptr ? std::span<Carry>(carried->states) : std::span<Carry>();
    SHARDLIGHT_TRY(states.optimizer_,
                   make_fused(layout, optimizer, states.segments_, account, before));
  }
  return states;
}

Status OptimizerStates::take_segments(const ParametersOf& parameters,
                                      const std::vector<StepSettings>& settings,
                                      memory::Account& account, CarriedStates* carried) {
  for (layout::UnitIndex index = 0; index < layout_->units.size(); ++index) {
    if (!layout_->units[index].trainable) continue;
    UnitStates& unit = units_[index];
    unit.parameters = parameters(index);
    auto* values = reinterpret_cast<float*>(unit.parameters.data());
    if (layout_->units[index].dtype != layout::DType::kFloat32) {
      const Count elements = layout_->stepped.slice(index, layout_->rank).size();
      const Bytes bytes(elements.value() * static_cast<std::int64_t>(sizeof(float)));
      SHARDLIGHT_TRY(unit.master, memory::Buffer::zeros(account, memory::Tag::kMaster, bytes));
      values = unit.master.floats().data();
      if (carried != nullptr) {
        SHARDLIGHT_TRY_STATUS(
            carried->masters.fill(index, unit.master.bytes(), layout::DType::kFloat32));
      }
      adopt(index);
    }
    unit.first = segments_.size();
    for (const layout::SliceRow& row : layout_->stepped.rows_of(index, layout_->rank)) {
      const std::int64_t offset = row.slice_offset.value();
      segments_.push_back({.unit = index,
                           .parameter = row.parameter,
                           .name = layout_->table[row.parameter].names.front(),
                           .offset = offset,
                           .settings = settings[row.parameter],
                           .steps = 0,
                           .value = view_of(values + offset, row.range.size().value()),
                           .gradient = {}});
    }
    unit.segments = segments_.size() - unit.first;
  }
  return {};
}

StatesLeft OptimizerStates::leave() {
  StatesLeft left{.masters = {}, .states = optimizer_->take_states(), .steps = steps_};
  for (UnitStates& unit : units_) left.masters.push_back(std::move(unit.master));
  return left;
}

at::Tensor OptimizerStates::rounded(layout::UnitIndex unit) const {
  const auto elements = static_cast<std::int64_t>(master(unit).size());
  return at::from_blob(units_[unit].parameters.data(), {elements},
                       scalar_type_of(layout_->units[unit].dtype));
}

void OptimizerStates::adopt(layout::UnitIndex index) {
  const std::span<float> values = master(index);
  if (values.empty()) return;
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unrecorded;
  take_changed(view_of(values.data(), static_cast<std::int64_t>(values.size())), rounded(index));
}

std::span<float> OptimizerStates::widened(layout::UnitIndex index, const comm::SumSpan& sums) {
  if (sums.dtype() == layout::DType::kFloat32) return sums.floats();
  at::Tensor& copy = units_[index].widened;
  {
    const KeptAllocations allocated(*meter_, memory::Tag::kTemporaries);
    copy = tensor_of(sums).to(at::kFloat);
  }
  return {copy.mutable_data_ptr<float>(), static_cast<std::size_t>(copy.numel())};
}

Status OptimizerStates::step(layout::UnitIndex index, const comm::SumSpan& sums,
                             const StepFactors& factors, const std::vector<bool>& used) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unrecorded;
  const auto divisor = divisor_of(*optimizer_, factors);
  const std::span<float> gradients = widened(index, sums);
  if (!divisor) multiply(gradients, factors.mean, factors.clip);
  for (const layout::PlacedParameter& placed : layout_->units[index].parameters) {
    if (used[placed.parameter]) ++steps_[placed.parameter];
  }
  UnitStates& unit = units_[index];
  taking_part_.clear();
  for (std::size_t i = unit.first; i < unit.first + unit.segments; ++i) {
    Segment& segment = segments_[i];
    if (!used[segment.parameter]) continue;
    const float* const gradient = gradients.data() + segment.offset;
    if (!segment.gradient.defined() || segment.gradient.const_data_ptr() != gradient) {
      segment.gradient = view_of(gradient, segment.value.numel());
    }
    segment.steps = steps_[segment.parameter];
    taking_part_.push_back(i);
  }
  const Status stepped = optimizer_->step(taking_part_, {.lr = factors.lr, .divisor = divisor});
  if (by_unit()) unit.widened.reset();
  return stepped;
}

Status OptimizerStates::end_step(const StepFactors& factors) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unrecorded;
  const KeptAllocations states(*meter_, memory::Tag::kOptimizer);
  const Status stepped = optimizer_->end_step(factors.lr);
  for (UnitStates& unit : units_) unit.widened.reset();
  return stepped;
}

void OptimizerStates::write(layout::UnitIndex index) {
  const std::span<float> values = master(index);
  if (values.empty()) return;
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unrecorded;
  rounded(index).copy_(view_of(values.data(), static_cast<std::int64_t>(values.size())));
}

}  // namespace shardlight::engine
