#include "shardlight/engine/gradient_views.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/autograd_hooks.h"

namespace shardlight::engine {
namespace {

constexpr const char* kStepped = "is gone: the step has used it";
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
      units_(layout.units.size()) {
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    if (!layout.units[unit].trainable) continue;
    for (const layout::PlacedParameter& placed : layout.units[unit].parameters) {
      auto view = gradient_of(*parameters[placed.parameter]);
      view->keeper = this;
      units_[unit].members.push_back(std::move(view));
    }
  }
}

GradientViews::~GradientViews() {
  hide();
  for (const UnitState& unit : units_) {
    for (const auto& member : unit.members) {
      member->memory().set_data_ptr_noswap(at::DataPtr(nullptr, c10::DeviceType::CPU));
      member->memory().release_data_and_set_meta_custom_data_ptr_error_msg_(
          message(*member, "has ended with its engine"));
    }
  }
}

ManagedTensor& GradientViews::view_of(const ManagedTensor& parameter) const {
  const auto& members = units_[parameter.unit].members;
  return **std::ranges::find(members, parameter.index,
                             [](const auto& member) { return member->index; });
}

void GradientViews::take_away_all(const char* why) {
  for (UnitState& unit : units_) {
    for (const auto& member : unit.members) take_away(*member, message(*member, why));
    unit.here = false;
    unit.edited = false;
    unit.values = {};
    unit.buffer = {};
    unit.rounded = {};
  }
}

void GradientViews::show(const std::vector<bool>& used, double mean) {
  const std::scoped_lock lock(mutex_);
  shown_ = true;
  mean_ = mean;
  take_away_all(kNotRead);
  for (const UnitState& unit : units_) {
    for (const auto& member : unit.members) {
      at::Tensor& gradient = (*parameters_)[member->index]->tensor.mutable_grad();
      if (used[member->index]) gradient = member->tensor;
    }
  }
}

void GradientViews::hide() {
  shown_ = false;
  for (const UnitState& unit : units_) {
    for (const auto& member : unit.members) {
      at::Tensor& gradient = (*parameters_)[member->index]->tensor.mutable_grad();
      if (gradient.defined() && is_ours(gradient, *member)) gradient.reset();
    }
  }
}

void GradientViews::end_step() {
  const std::scoped_lock lock(mutex_);
  hide();
  take_away_all(kStepped);
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
  if (units_[parameter.unit].here) return view_of(parameter).tensor.clone();
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
  bool any = false;
  for (layout::UnitIndex index = 0; index < units_.size(); ++index) {
    UnitState& unit = units_[index];
    for (const auto& member : unit.members) {
      const at::Tensor& given = (*parameters_)[member->index]->tensor.grad();
      if (is_ours(given, *member) || (!given.defined() && !used[member->index])) continue;
      const bool fits = given.defined() && used[member->index] &&
                        given.scalar_type() == member->tensor.scalar_type() &&
                        given.layout() == at::kStrided && given.sizes() == member->tensor.sizes();
      if (!fits) {
        return user_error(
            "gradient of " + member->name, given.defined() ? given.toString() : "taken out",
            used[member->index]
                ? "changed in place, or replaced by a dense tensor of its shape and dtype"
                : "none, as no rank's backward reached the parameter");
      }
      if (!unit.here) SHARDLIGHT_TRY_STATUS(bring(index));
      member->tensor.copy_(given);
      unit.edited = true;
    }
    any = any || unit.edited;
  }
  return any;
}

// What was not changed keeps all its bits.
void GradientViews::take_rounded_edits(layout::UnitIndex index) {
  UnitState& unit = units_[index];
  if (unit.rounded.size() == 0) return;
  const at::Tensor exact = tensor_of(unit.values);
  const at::Tensor seen = tensor_of(unit.rounded, layout_->units[index].dtype);
  const at::Tensor changed =
      exact.to(seen.scalar_type()).view(at::kShort).ne(seen.view(at::kShort));
  exact.copy_(at::where(changed, seen.to(at::kFloat), exact));
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
      values.emplace_back(static_cast<const std::byte*>(member->memory().data()), member->bytes());
    }
    // All ranks have read the sum when this returns.
    SHARDLIGHT_TRY(const auto differs, first_difference(*transport_, values, deadline));
    if (differs) {
      return user_error("gradient of " + unit.members[*differs]->name,
                        "changed to other values on some ranks than on others",
                        "the same changes on all ranks before step()");
    }
    take_rounded_edits(index);
    SHARDLIGHT_TRY_STATUS(gradients_->replace_by_mean(index, unit.values));
  }
  return {};
}

}  // namespace shardlight::engine
