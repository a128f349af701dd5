// A tensor whose memory is ours, a parameter or its gradient: tensor and storage are what the user
// has, with size and shape, but where the storage points is set here. While it points nowhere, or
// is shut, every access outside of an operator that the engine serves throws the storage's own
// message.
//
// Our storages are known by the deleter of their DataPtr, whose context is the ManagedTensor; so
// it must stay where it is as long as the storage is managed. One thread at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/parameter_table.h"
#include "shardlight/layout/unit.h"

namespace shardlight::engine {

struct ManagedTensor;

// What serves the uses of managed tensors, on whatever thread an operator runs.
class Keeper {
 public:
  // An operator is about to use the tensor: its values stay here until unpin. False if that failed;
  // the reason is kept, and is what the storage says when it is read.
  virtual bool pin(ManagedTensor& tensor, bool writes, const char* operator_name) = 0;
  virtual void unpin(ManagedTensor& tensor) = 0;

 protected:
  ~Keeper() = default;
};

struct ManagedTensor {
  at::Tensor tensor;
  c10::Storage storage;              // the tensor's; ours too, so that it outlives a replacement
  std::string name;                  // the parameter's canonical one
  layout::ParameterIndex index = 0;  // in the table
  layout::UnitIndex unit = 0;
  std::int64_t offset = 0;  // elements, in the unit
  std::vector<std::int64_t> sizes;
  at::ScalarType type = at::kFloat;
  Keeper* keeper = nullptr;
  std::string away;  // what reading it says while no operator or scope uses it
  int users = 0;     // operators and scopes that do, where it is shut meanwhile

  std::int64_t elements() const { return tensor.numel(); }
  std::size_t offset_bytes() const {
    return static_cast<std::size_t>(offset * static_cast<std::int64_t>(tensor.element_size()));
  }
  std::size_t bytes() const { return storage.nbytes(); }
  c10::StorageImpl& memory() const { return *storage.unsafeGetStorageImpl(); }
};

using ManagedTensors = std::vector<std::unique_ptr<ManagedTensor>>;  // by parameter
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct Adopted {
  layout::ParameterTable table;
  ManagedTensors parameters;
};

// The model's parameters, tied ones once, still in their own memory. A parameter that is a view
// into more memory than its own, or not contiguous, is copied into memory of its own first. Errors
// (user, field = name): not on the CPU, not fp32, bf16 or fp16, sparse, two parameters in one
// storage, managed already but by `mine`, whose parameters stay with it.
Result<Adopted> adopt(const NamedTensors& named, const Keeper* mine = nullptr);

// Those of them that have a storage to themselves, and stay in it when they are adopted.
std::vector<at::Tensor> whole_storages(const NamedTensors& named);

// The managed tensor that a tensor's storage belongs to, the tensor being it or a view of it; null
// if it is none of ours. The fast path of every operator.
inline ManagedTensor* managed_tensor(const at::Tensor& tensor);

// The gradient of a parameter: a tensor of its shape that points nowhere yet, and belongs to
// nobody.
std::unique_ptr<ManagedTensor> gradient_of(const ManagedTensor& parameter);

// fp32, bf16 or fp16; else none.
std::optional<layout::DType> dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(layout::DType dtype);

// Points the storage at memory of ours.
void point_at(ManagedTensor& tensor, std::byte* memory);
// Points it nowhere; who reads it all the same is told `message`.
void take_away(ManagedTensor& tensor, std::string message);
// It points where it did; who reads it is told what `away` says, or may read it.
void shut(ManagedTensor& tensor);
void open(ManagedTensor& tensor);
// Memory of its own again, with `values` if there are any; the storage is no longer managed.
void let_go(ManagedTensor& tensor, const std::byte* values);
// The tensor is no longer ours, who may have kept it: reading it says `message`.
void retire(ManagedTensor& tensor, std::string message);
// Whether the tensor is still the whole of the storage that was adopted, in its shape and dtype,
// and the storage has our pointer.
bool intact(const ManagedTensor& managed);

// Whether the adopted storage, which may be no tensor's any more, still has our pointer.
bool is_managed(const ManagedTensor& managed);

// The mark of our storages; frees nothing.
void keep_memory(void* tensor);

inline ManagedTensor* managed_tensor(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage()) return nullptr;
  auto& pointer = impl->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return pointer.get_deleter() == &keep_memory ? static_cast<ManagedTensor*>(pointer.get_context())
                                               : nullptr;
}

}  // namespace shardlight::engine
