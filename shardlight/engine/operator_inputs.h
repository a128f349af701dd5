// The tensors that an operator is called with, for callbacks of at::RecordFunction, and what its
// schema says of them: which it writes, and whether it makes views alone. Any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

namespace shardlight::engine {

struct OperatorTraits {
  bool only_views = false;           // its outputs are views, and it reads no element
  c10::SmallVector<bool, 8> writes;  // by argument

  bool writes_to(std::size_t argument) const {
    return argument < writes.size() && writes[argument];
  }
};

// Kept by operator, so cheap from the second time on.
const OperatorTraits& traits_of(const at::RecordFunction& function);

// Calls `use(tensor)` for every tensor in a value, alone or in a list.
template <class Use>
void for_each_tensor(const c10::IValue& value, Use&& use) {
  if (value.isTensor()) {
    const auto* impl = value.unsafeToTensorImpl();
    if (impl != c10::UndefinedTensorImpl::singleton()) use(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) use(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) use(item.toTensor());
    }
  }
}

// Calls `use(tensor, argument)` for every tensor that the operator is called with.
template <class Use>
void for_each_input(const at::RecordFunction& function, Use&& use) {
  const auto inputs = function.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for_each_tensor(inputs[i], [&](const at::Tensor& tensor) { use(tensor, i); });
  }
}

}  // namespace shardlight::engine
