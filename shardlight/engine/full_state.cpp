#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <cstring>

#include "shardlight/engine/engine_impl.h"
#include "shardlight/engine/or_throw.h"

namespace shardlight::engine {

Engine::FullState Engine::full_state() {
  or_throw(impl().check());
  return FullState(*this);
}

std::optional<std::pair<std::string, at::Tensor>> Engine::FullState::next() {
  auto item = or_throw(engine_->impl().state_at(position_, last_));
  if (!item) return std::nullopt;
  ++position_;
  last_ = item->second;
  return item;
}

Result<at::Tensor> Engine::Impl::copy_of(const ManagedTensor& parameter) {
  at::Tensor copy = at::empty(parameter.sizes, parameter.tensor.options().requires_grad(false));
  SHARDLIGHT_TRY_STATUS(residency_->hold(parameter.unit, /*writes=*/false));
  if (parameter.bytes() > 0) {
    std::memcpy(copy.mutable_data_ptr(), parameter.memory().data(), parameter.bytes());
  }
  residency_->unhold(parameter.unit);
  return copy;
}

Result<std::optional<std::pair<std::string, at::Tensor>>> Engine::Impl::state_at(
    std::size_t position, const at::Tensor& last) {
  SHARDLIGHT_TRY_STATUS(check());
  const at::DisableRecordFunctionGuard unrecorded;
  for (const auto& parameter : parameters_) {
    const auto& names = layout_->table[parameter->index].names;
    if (position >= names.size()) {
      position -= names.size();
      continue;
    }
    if (position > 0) return std::pair(names[position], last);
    SHARDLIGHT_TRY(at::Tensor copy, copy_of(*parameter));
    return std::pair(names.front(), std::move(copy));
  }
  if (position >= buffers_.size()) return std::nullopt;
  at::Tensor copy = buffers_[position].second.clone();
  SHARDLIGHT_TRY_STATUS(broadcast(copy));
  return std::pair(buffers_[position].first, std::move(copy));
}

}  // namespace shardlight::engine
