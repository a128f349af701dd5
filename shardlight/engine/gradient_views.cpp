#include "shardlight/engine/gradient_views.h"

#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/autograd_hooks.h"
#include "shardlight/engine/rounding.h"

namespace shardlight::engine {
namespace {

constexpr const char* kNotRead = "is not gathered; read it in an operator";

std::string message(const ManagedTensor& gradient, const char* why) {
  return "gradient of " + gradient.name + " " + why;
}

void scale(std::span<float> values, double factor) {
  const auto rounded = static_cast<float>(factor);
  for (float& value : values) value *= rounded;
}

at::Tensor tensor_of(std::span<float> values) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat);
}

at::Tensor tensor_of(const memory::Buffer& buffer, layout::DType dtype) {
  const auto each = static_cast<std::size_t>(layout::bytes_per_element(dtype).value());
  return at::from_blob(buffer.data(), {static_cast<std::int64_t>(buffer.size() / each)},
                       scalar_type_of(dtype));
}

bool is_ours(const at::Tensor& gradient, const ManagedTensor& view) {
  return gradient.defined() &&
         gradient.unsafeGetTensorImpl() == view.tensor.unsafeGetTensorImpl() && intact(view);
}

// What a user has put in the place of ours can be stepped with.
bool fits(const at::Tensor& gradient, const ManagedTensor& view) {
  return gradient.defined() && gradient.layout() == at::kStrided && gradient.device().is_cpu() &&
         gradient.scalar_type() == view.type && gradient.sizes() == view.sizes;
}

Failure refusal(const at::Tensor& gradient, const ManagedTensor& view, bool wanted) {
  return user_error(
      "gradient of " + view.name,
      gradient.defined() ? gradient.toString() + " of shape " + c10::str(gradient.sizes())
                         : "taken out",
      wanted ? "changed in place, or replaced by a dense tensor of its shape and dtype"
             : "none, as no rank's backward reached the parameter");
}

}  // namespace

GradientViews::GradientViews(const ModelLayout& layout, const Options& options,
                             const ManagedTensors& parameters, Gradients& gradients,
                             comm::Transport& transport, memory::Account& account)
    : layout_(&layout),
      parameters_(&parameters),
      gradients_(&gradients),
      transport_(&transport),
      account_(&account),
      deadline_(options.deadline),
      units_(layout.units.size()) {}

GradientViews::~GradientViews() { retire_all("has ended with its engine"); }

// .grad is empty then, whatever stood there.
void GradientViews::retire_all(const char* why) {
  shown_ = false;
  for (UnitState& unit : units_) {
    for (const auto& member : unit.members) {
      (*parameters_)[member->index]->tensor.mutable_grad().reset();
      retire(*member, message(*member, why));
    }
    unit = UnitState();
  }
}

// New ones for each step: a gradient that a user has kept is not the next one.
void GradientViews::show(const std::vector<bool>& used, double mean) {
  const std::scoped_lock lock(mutex_);
  shown_ = true;
  mean_ = mean;
  for (const layout::Unit& unit : layout_->units) {
    if (!unit.trainable) continue;
    for (const layout::PlacedParameter& placed : unit.parameters) {
      const ManagedTensor& parameter = *(*parameters_)[placed.parameter];
      auto view = gradient_of(parameter);
      view->keeper = this;
      take_away(*view, message(*view, kNotRead));
      if (used[placed.parameter]) parameter.tensor.mutable_grad() = view->tensor;
      units_[parameter.unit].members.push_back(std::move(view));
    }
  }
}

void GradientViews::end_step() {
  const std::scoped_lock lock(mutex_);
  retire_all("is gone: the step has used it");
}

bool GradientViews::pin(ManagedTensor& gradient, bool writes, const char* /*operator_name*/) {
  const std::scoped_lock lock(mutex_);
  if (!shown_ || error_) return false;
  const at::DisableRecordFunctionGuard unrecorded;
  UnitState& unit = units_[gradient.unit];
  Status ready;
  if (in_backward() && writes) {
    ready = user_error("gradient of " + gradient.name, "accumulated into after it was complete",
                       "as many backward passes as `accumulation` says before step()");
  } else if (!unit.here) {
    ready = bring(gradient.unit);
  }
  if (!ready) {
    error_ = ready.error();
    for (const auto& member : unit.members) take_away(*member, error_->message());
    return false;
  }
  unit.edited = unit.edited || writes;
  return true;
}

// They stay until the step.
void GradientViews::unpin(ManagedTensor& /*gradient*/) {}

std::optional<Error> GradientViews::error() const {
  const std::scoped_lock lock(mutex_);
  return error_;
}

// Into the rank's own sum where it has one for the whole unit.
Status GradientViews::bring(layout::UnitIndex index) {
  UnitState& unit = units_[index];
  unit.values = gradients_->own_sum(index);
  if (unit.values.empty()) {
    const Bytes bytes(layout_->units[index].elements.value() *
                      static_cast<std::int64_t>(sizeof(float)));
    SHARDLIGHT_TRY(unit.buffer, memory::Buffer::zeros(*account_, memory::Tag::kGathered, bytes));
    unit.values = unit.buffer.floats();
  }
  SHARDLIGHT_TRY_STATUS(gradients_->read(index, unit.values));
  scale(unit.values, mean_);
  auto* memory = reinterpret_cast<std::byte*>(unit.values.data());
  if (const auto& placed = layout_->units[index]; placed.dtype != layout::DType::kFloat32) {
    SHARDLIGHT_TRY(unit.rounded,
                   memory::Buffer::zeros(*account_, memory::Tag::kGathered, placed.bytes()));
    memory = unit.rounded.data();
    tensor_of(unit.rounded, placed.dtype).copy_(tensor_of(unit.values));
  }
  unit.memory = memory;
  for (const auto& member : unit.members) point_at(*member, memory + member->offset_bytes());
  unit.here = true;
  return {};
}

Result<at::Tensor> GradientViews::read(const ManagedTensor& parameter) {
  const std::scoped_lock lock(mutex_);
  if (!shown_) {
    return user_error("gradient of " + parameter.name, "not complete",
                      "read between the last backward and step()");
  }
  const at::DisableRecordFunctionGuard unrecorded;
  const at::NoGradGuard no_grad;
  if (units_[parameter.unit].here) return values_of(parameter).clone();
  std::vector<float> values(
      static_cast<std::size_t>(layout_->units[parameter.unit].elements.value()));
  SHARDLIGHT_TRY_STATUS(gradients_->read(parameter.unit, values));
  scale(values, mean_);
  return at::from_blob(values.data() + parameter.offset, parameter.tensor.sizes(), at::kFloat)
      .to(parameter.tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

Result<bool> GradientViews::take_edits(const std::vector<bool>& used) {
  const std::scoped_lock lock(mutex_);
  const at::NoGradGuard no_grad;
  // All are copied before any is written, as one may be another one of ours.
  std::vector<std::pair<ManagedTensor*, at::Tensor>> replaced;
  for (const UnitState& unit : units_) {
    for (const auto& member : unit.members) {
      const at::Tensor& given = (*parameters_)[member->index]->tensor.grad();
      const bool wanted = used[member->index];
      if (is_ours(given, *member) || (!given.defined() && !wanted)) continue;
      if (!wanted || !fits(given, *member)) return refusal(given, *member, wanted);
      const ManagedTensor* other = managed_tensor(given);
      if (other != nullptr && other->keeper == this && !units_[other->unit].here) {
        SHARDLIGHT_TRY_STATUS(bring(other->unit));
      }
      replaced.emplace_back(member.get(), given.detach().clone());
    }
  }
  for (const auto& [member, gradient] : replaced) {
    UnitState& unit = units_[member->unit];
    if (!unit.here) SHARDLIGHT_TRY_STATUS(bring(member->unit));
    values_of(*member).copy_(gradient);
    unit.edited = true;
  }
  return std::ranges::any_of(units_, &UnitState::edited);
}

at::Tensor GradientViews::values_of(const ManagedTensor& gradient) const {
  return at::from_blob(units_[gradient.unit].memory + gradient.offset_bytes(), gradient.sizes,
                       gradient.type);
}

Status GradientViews::settle_edits() {
  const std::scoped_lock lock(mutex_);
  const comm::Deadline deadline(deadline_);
  std::vector<bool> edited;
  for (const UnitState& unit : units_) edited.push_back(unit.edited);
  SHARDLIGHT_TRY_STATUS(agree_on_any(*transport_, edited, deadline));
  for (layout::UnitIndex index = 0; index < units_.size(); ++index) {
    UnitState& unit = units_[index];
    if (!edited[index]) continue;
    if (!unit.here) SHARDLIGHT_TRY_STATUS(bring(index));
    std::vector<std::span<const std::byte>> values;
    for (const auto& member : unit.members) {
      values.emplace_back(unit.memory + member->offset_bytes(), member->bytes());
    }
    // All ranks have read the sum when this returns.
    SHARDLIGHT_TRY(const auto differs, first_difference(*transport_, values, deadline));
    if (differs) {
      return user_error("gradient of " + unit.members[*differs]->name,
                        "changed to other values on some ranks than on others",
                        "the same changes on all ranks before step()");
    }
    if (unit.rounded.size() > 0) {
      take_changed(tensor_of(unit.values), tensor_of(unit.rounded, layout_->units[index].dtype));
    }
    SHARDLIGHT_TRY_STATUS(gradients_->replace_by_mean(index, unit.values));
  }
  return {};
}

}  // namespace shardlight::engine
