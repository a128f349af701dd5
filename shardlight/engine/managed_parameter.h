// A parameter whose memory is ours: its tensor and storage stay the user's, with size and shape,
// but where the storage points is set here. While it points nowhere, every access outside of an
// operator that the engine serves throws the storage's own message.
//
// Our storages are known by the deleter of their DataPtr, whose context is the ManagedParameter; so
// it must stay where it is as long as the storage is managed. One thread at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/parameter_table.h"
#include "shardlight/layout/unit.h"

namespace shardlight::engine {

// What serves the uses of parameters: the engine's residency.
class Residency;

struct ManagedParameter {
  at::Tensor tensor;
  c10::Storage storage;              // the tensor's; ours too, so that it outlives a replacement
  std::string name;                  // the canonical one
  layout::ParameterIndex index = 0;  // in the table
  layout::UnitIndex unit = 0;
  std::int64_t offset = 0;  // elements, in the unit
  Residency* residency = nullptr;

  std::int64_t elements() const { return tensor.numel(); }
  std::size_t bytes() const { return storage.nbytes(); }
  c10::StorageImpl& memory() const { return *storage.unsafeGetStorageImpl(); }
};

using ManagedParameters = std::vector<std::unique_ptr<ManagedParameter>>;  // by table index
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct Adopted {
  layout::ParameterTable table;
  ManagedParameters parameters;
};

// The model's parameters, tied ones once, still in their own memory. A parameter that is a view
// into more memory than its own, or not contiguous, is copied into memory of its own first. Errors
// (user, field = name): not on the CPU, not fp32, sparse, two parameters in one storage, managed
// already.
Result<Adopted> adopt(const NamedTensors& named);

// The parameter that a tensor's storage belongs to, the tensor being it or a view of it; null if it
// is none of ours. The fast path of every operator.
inline ManagedParameter* managed_parameter(const at::Tensor& tensor);

// Points the storage at memory of ours.
void point_at(ManagedParameter& parameter, std::byte* memory);
// Points it nowhere; who reads it all the same is told `message`.
void take_away(ManagedParameter& parameter, std::string message);
// Memory of its own again, with `values` if there are any; the storage is no longer managed.
void let_go(ManagedParameter& parameter, const std::byte* values);
// Whether the tensor still has the storage that was adopted, and the storage our pointer.
bool intact(const ManagedParameter& parameter);

// The mark of our storages; frees nothing.
void keep_memory(void* parameter);

inline ManagedParameter* managed_parameter(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage()) return nullptr;
  auto& pointer = impl->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return pointer.get_deleter() == &keep_memory
             ? static_cast<ManagedParameter*>(pointer.get_context())
             : nullptr;
}

}  // namespace shardlight::engine
