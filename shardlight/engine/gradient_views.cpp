#include "shardlight/engine/gradient_views.h"

#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/autograd_hooks.h"
#include "shardlight/engine/rounding.h"
#include "shardlight/engine/sum_tensor.h"

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

std::span<float> floats_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// In fp32: of an fp32 sum in its place, of another a copy.
at::Tensor mean_of(const comm::SumSpan& sum, double factor) {
  at::Tensor mean = tensor_of(sum).to(at::kFloat);
  scale(floats_of(mean), factor);
  return mean;
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
  const layout::Unit& placed = layout_->units[index];
  unit.sum = gradients_->own_sum(index);
  if (unit.sum.empty()) {
    const Bytes bytes = layout_->sum_bytes(index, placed.elements);
    SHARDLIGHT_TRY(unit.buffer, memory::Buffer::zeros(*account_, memory::Tag::kGathered, bytes));
    unit.sum = {unit.buffer.data(), layout_->sum_dtype(index), placed.elements};
  }
  SHARDLIGHT_TRY_STATUS(gradients_->read(index, unit.sum));
  const at::Tensor mean = mean_of(unit.sum, mean_);
  std::byte* memory = unit.sum.data();
  if (placed.dtype != layout::DType::kFloat32) {
    SHARDLIGHT_TRY(unit.rounded,
                   memory::Buffer::zeros(*account_, memory::Tag::kGathered, placed.bytes()));
    memory = unit.rounded.data();
    rounded(index).copy_(mean);
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
  const Count elements = layout_->units[parameter.unit].elements;
  std::vector<std::byte> memory(
      static_cast<std::size_t>(layout_->sum_bytes(parameter.unit, elements).value()));
  const comm::SumSpan sum(memory.data(), layout_->sum_dtype(parameter.unit), elements);
  SHARDLIGHT_TRY_STATUS(gradients_->read(parameter.unit, sum));
  return mean_of(sum, mean_)
      .narrow(0, parameter.offset, parameter.elements())
      .view(parameter.tensor.sizes())
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

at::Tensor GradientViews::rounded(layout::UnitIndex index) const {
  const layout::Unit& placed = layout_->units[index];
  return tensor_of({units_[index].rounded.data(), placed.dtype, placed.elements});
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
    const bool is_mean = unit.sum.dtype() == layout::DType::kFloat32;
    const at::Tensor mean = is_mean ? tensor_of(unit.sum) : mean_of(unit.sum, mean_);
    if (unit.rounded.size() > 0) take_changed(mean, rounded(index));
    SHARDLIGHT_TRY_STATUS(gradients_->replace_by_mean(index, floats_of(mean)));
  }
  return {};
}

}  // namespace shardlight::engine
