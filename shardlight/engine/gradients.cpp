#include "shardlight/engine/gradients.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/torch_meter.h"

namespace shardlight::engine {

Gradients::Gradients(const ModelLayout& layout, const Options& options,
                     const ManagedTensors& parameters, comm::Transport& transport,
                     memory::Account& account)
    : layout_(&layout),
      transport_(&transport),
      account_(&account),
      accumulation_(options.accumulation),
      deadline_(options.deadline),
      member_of_(parameters.size()),
      units_(layout.units.size()),
      used_(parameters.size()),
      bucket_bytes_(options.bucket_bytes) {
  if (bucket_bytes_ > Bytes(0)) lane_ = std::make_unique<comm::Lane>(transport, "reduce");
}

Result<std::unique_ptr<Gradients>> Gradients::create(const ModelLayout& layout,
                                                     const Options& options,
                                                     const ManagedTensors& parameters,
                                                     comm::Transport& transport,
                                                     memory::Account& account) {
  std::unique_ptr<Gradients> gradients(
      new Gradients(layout, options, parameters, transport, account));
  const auto first =
      layout.placements.gradients.sharded() ? memory::Tag::kUnreduced : memory::Tag::kGradients;
  for (layout::UnitIndex index = 0; index < layout.units.size(); ++index) {
    const layout::Unit& unit = layout.units[index];
    if (!unit.trainable) continue;
    UnitGradients& state = gradients->units_[index];
    const std::size_t members = unit.parameters.size();
    for (std::size_t i = 0; i < members; ++i) {
      gradients->member_of_[unit.parameters[i].parameter] = i;
    }
    state.arrived.resize(members);
    state.late.resize(members);
    if (layout.keeps_local_gradients()) {
      const bool once = layout.reduces_once();
      SHARDLIGHT_TRY(state.local, LocalGradients::create(account, unit, layout.sum_dtype(index),
                                                         first, options.reproducible && once,
                                                         once ? options.accumulation : 1));
    } else {
      state.pending.resize(members);
    }
  }
  return gradients;
}

// Whether the unit is to be reduced as soon as it is complete in this backward.
bool Gradients::reduces_now(const UnitGradients& unit) const {
  if (!counts_ && unit.local) return false;
  return !layout_->reduces_once() || micro_step_ + 1 == accumulation_;
}

void Gradients::keep(at::Tensor& place, at::Tensor gradient) {
  if (place.defined()) {
    place.add_(gradient);
    return;
  }
  if (!retag(gradient, memory::Tag::kBuckets)) {
    account_->add(memory::Tag::kBuckets, Bytes(static_cast<std::int64_t>(gradient.nbytes())));
  }
  place = std::move(gradient);
}

void Gradients::drop(std::vector<at::Tensor>& tensors) {
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (!retag(tensor, memory::Tag::kTemporaries)) {
      account_->remove(memory::Tag::kBuckets, Bytes(static_cast<std::int64_t>(tensor.nbytes())));
    }
    tensor.reset();
  }
}

Status Gradients::arrive(const ManagedTensor& parameter) {
  at::Tensor gradient = std::exchange(parameter.tensor.mutable_grad(), at::Tensor());
  if (!gradient.defined()) return {};
  if (gradient.layout() != at::kStrided || gradient.scalar_type() != parameter.type ||
      gradient.sizes() != parameter.sizes) {
    return user_error("gradient of " + parameter.name,
                      gradient.toString() + " of shape " + c10::str(gradient.sizes()),
                      "dense, of the dtype and shape that the parameter had at first");
  }
  if (micro_step_ >= accumulation_) {
    return user_error("accumulation", std::to_string(accumulation_),
                      "as many backward passes as there are before step()");
  }
  const at::DisableRecordFunctionGuard unrecorded;
  gradient = gradient.detach().contiguous();
  UnitGradients& unit = units_[parameter.unit];
  const std::size_t member = member_of_[parameter.index];
  used_[parameter.index] = true;
  if (unit.reduced || unit.arrived[member]) {
    keep(unit.late[member], std::move(gradient));
    return {};
  }
  unit.arrived[member] = true;
  if (unit.local) {
    unit.local->add(member, layout_->reduces_once() ? micro_step_ : 0, gradient);
  } else {
    keep(unit.pending[member], std::move(gradient));
  }
  if (++unit.arrivals < unit.arrived.size() || !reduces_now(unit)) return {};
  return reduce(parameter.unit);
}

std::vector<comm::GradientPart> Gradients::pending_parts(
    layout::UnitIndex unit, const std::vector<at::Tensor>& tensors) const {
  std::vector<comm::GradientPart> parts;
  for (std::size_t member = 0; member < tensors.size(); ++member) {
    if (!tensors[member].defined()) continue;
    const auto& placed = layout_->units[unit].parameters[member];
    parts.push_back({.begin = placed.offset,
                     .elements = placed.elements,
                     .data = tensors[member].const_data_ptr()});
  }
  return parts;
}

Status Gradients::reduce(layout::UnitIndex index) {
  UnitGradients& unit = units_[index];
  unit.reduced = true;
  if (unit.local) return reduce_parts(index, unit.local->parts(), {});
  const auto parts = pending_parts(index, unit.pending);
  std::vector<at::Tensor> tensors(unit.pending.size());
  tensors.swap(unit.pending);
  return reduce_parts(index, parts, std::move(tensors));
}

Status Gradients::reduce_parts(layout::UnitIndex index, std::span<const comm::GradientPart> parts,
                               std::vector<at::Tensor> tensors) {
  UnitGradients& unit = units_[index];
  const bool as_it_came = !tensors.empty();
  const comm::Gradient gradient{
      .parts = parts,
      .dtype = as_it_came ? layout_->units[index].dtype : layout_->sum_dtype(index)};
  ++unit.round;
  bytes_reduced_ += bytes_for_others(index, gradient);
  const bool fresh = std::exchange(unit.fresh, false);
  const auto began = std::chrono::steady_clock::now();
  Status status;
  if (lane_) {
    const Bytes bytes = layout_->units[index].bytes();
    in_flight_.push_back({.handle = lane_->reduce(index, unit.round, fresh, gradient, deadline()),
                          .tensors = std::move(tensors),
                          .bytes = bytes});
    in_flight_bytes_ += bytes;
    status = wait_down_to(bucket_bytes_);
  } else {
    status = transport_->reduce(index, unit.round, fresh, gradient, deadline());
    drop(tensors);
  }
  waited_ += std::chrono::steady_clock::now() - began;
  return status;
}

Status Gradients::wait_down_to(Bytes bytes) {
  while (in_flight_bytes_ > bytes || (bytes == Bytes(0) && !in_flight_.empty())) {
    InFlight& oldest = in_flight_.front();
    SHARDLIGHT_TRY_STATUS(oldest.handle.wait(deadline()));
    drop(oldest.tensors);
    in_flight_bytes_ = in_flight_bytes_ - oldest.bytes;
    in_flight_.pop_front();
  }
  return {};
}

Bytes Gradients::bytes_for_others(layout::UnitIndex unit, const comm::Gradient& gradient) const {
  const layout::ElementRange own = layout_->exchanged.slice(unit, layout_->rank);
  Count elements;
  for (const comm::GradientPart& part : gradient.parts) {
    const Count begin = std::max(part.begin, own.begin);
    const Count end = std::min(part.begin + part.elements, own.end);
    elements += part.elements - std::max(Count(0), end - begin);
  }
  return layout::bytes_per_element(gradient.dtype) * elements.value();
}

Status Gradients::end_backward() {
  const at::DisableRecordFunctionGuard unrecorded;
  const bool once = layout_->reduces_once();
  for (layout::UnitIndex index = 0; index < units_.size(); ++index) {
    if (!layout_->units[index].trainable) continue;
    UnitGradients& unit = units_[index];
    const bool reduces = reduces_now(unit);
    if (unit.local && counts_) unit.local->end_micro_step(once ? micro_step_ : 0);
    if (reduces && !unit.reduced) SHARDLIGHT_TRY_STATUS(reduce(index));
  }
  const auto began = std::chrono::steady_clock::now();
  SHARDLIGHT_TRY_STATUS(wait_down_to(Bytes(0)));
  waited_ += std::chrono::steady_clock::now() - began;
  for (UnitGradients& unit : units_) {
    if (unit.local && unit.reduced && !once) unit.local->clear();
    unit.arrived.assign(unit.arrived.size(), false);
    unit.arrivals = 0;
    unit.reduced = false;
  }
  if (counts_) ++micro_step_;
  return {};
}

Result<bool> Gradients::complete(bool active) {
  const at::DisableRecordFunctionGuard unrecorded;
  BackwardFlags mine{.late = late(), .unused = false, .active = active};
  for (const layout::Unit& unit : layout_->units) {
    if (!unit.trainable) continue;
    mine.unused = mine.unused || !std::ranges::all_of(unit.parameters, [&](const auto& member) {
                    return used_[member.parameter];
                  });
  }
  SHARDLIGHT_TRY(const BackwardFlags flags, agree(*transport_, mine, deadline()));
  if (flags.late) SHARDLIGHT_TRY_STATUS(reduce_late());
  if (flags.unused) SHARDLIGHT_TRY_STATUS(agree_on_any(*transport_, used_, deadline()));
  return flags.active;
}

bool Gradients::late() const {
  return std::ranges::any_of(units_, [](const UnitGradients& unit) {
    return std::ranges::any_of(unit.late, [](const auto& tensor) { return tensor.defined(); });
  });
}

Status Gradients::reduce_late() {
  for (layout::UnitIndex index = 0; index < units_.size(); ++index) {
    if (!layout_->units[index].trainable) continue;
    auto& late = units_[index].late;
    const auto parts = pending_parts(index, late);
    std::vector<at::Tensor> tensors(late.size());
    tensors.swap(late);
    SHARDLIGHT_TRY_STATUS(reduce_parts(index, parts, std::move(tensors)));
  }
  return wait_down_to(Bytes(0));
}

Result<comm::SumSpan> Gradients::slice(layout::UnitIndex index) {
  const memory::Buffer& mean = units_[index].mean;
  if (mean.size() == 0) return transport_->reduced(index, units_[index].round, deadline());
  const layout::ElementRange own = layout_->exchanged.slice(index, layout_->rank);
  const Count skipped = own.begin - layout_->stepped.slice(index, layout_->rank).begin;
  return comm::SumSpan(mean.floats()).part(skipped, own.size());
}

Result<comm::SumSpan> Gradients::stepped(layout::UnitIndex index) {
  if (layout_->placements.optimizer.sharded()) return slice(index);
  const memory::Buffer& mean = units_[index].mean;
  if (mean.size() > 0) return comm::SumSpan(mean.floats());
  const comm::SumSpan sum = own_sum(index);
  if (units_[index].is_mean) return sum;
  SHARDLIGHT_TRY(const bool any, gather(index, sum));
  return any ? sum : comm::SumSpan();
}

Result<bool> Gradients::gather(layout::UnitIndex index, const comm::SumSpan& target) {
  SHARDLIGHT_TRY(const bool any,
                 transport_->gather_reduced(index, units_[index].round, target, deadline()));
  if (any) bytes_read_ += layout_->sum_bytes_of_others(index).value();
  return any;
}

Status Gradients::read(layout::UnitIndex index, const comm::SumSpan& target) {
  SHARDLIGHT_TRY(const bool any, gather(index, target));
  if (!any) std::ranges::fill(target.bytes(), std::byte{0});
  return {};
}

comm::SumSpan Gradients::own_sum(layout::UnitIndex index) {
  auto& local = units_[index].local;
  return local && !layout_->placements.gradients.sharded() ? local->sum() : comm::SumSpan();
}

Status Gradients::replace_by_mean(layout::UnitIndex index, std::span<const float> mean) {
  UnitGradients& unit = units_[index];
  layout::ElementRange kept = layout_->exchanged.slice(index, layout_->rank);
  std::span<float> target;
  if (layout_->sum_dtype(index) == layout::DType::kFloat32) {
    SHARDLIGHT_TRY(const auto own, slice(index));
    target = own.floats();
  } else {
    kept = layout_->stepped.slice(index, layout_->rank);
    const Bytes bytes = layout::bytes_per_element(layout::DType::kFloat32) * kept.size().value();
    SHARDLIGHT_TRY(unit.mean, memory::Buffer::zeros(*account_, memory::Tag::kGathered, bytes));
    target = unit.mean.floats();
  }
  const auto begin = static_cast<std::size_t>(kept.begin.value());
  std::ranges::copy(mean.subspan(begin, target.size()), target.begin());
  unit.is_mean = true;
  return {};
}

Status Gradients::end_step() {
  for (layout::UnitIndex index = 0; index < units_.size(); ++index) {
    if (!layout_->units[index].trainable) continue;
    UnitGradients& unit = units_[index];
    if (unit.local) unit.local->clear();
    unit.fresh = true;
    unit.is_mean = false;
    unit.mean = memory::Buffer();
    SHARDLIGHT_TRY_STATUS(transport_->release(index, unit.round));
  }
  used_.assign(used_.size(), false);
  micro_step_ = 0;
  return {};
}

}  // namespace shardlight::engine
