#include "shardlight/engine/managed_tensor.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <unordered_map>

namespace shardlight::engine {
namespace {

std::string text_of(at::ScalarType type) { return c10::toString(type); }

Status check_parameter(const std::string& name, const at::Tensor& tensor,
                       const Keeper* mine = nullptr) {
  const std::string field = "parameter " + name;
  if (!tensor.defined()) return user_error(field, "undefined", "a tensor");
  if (tensor.layout() != at::kStrided) {
    return user_error(field, c10::str(tensor.layout()), "a strided (dense) tensor");
  }
  if (!tensor.device().is_cpu()) return user_error(field, tensor.device().str(), "on the CPU");
  if (!dtype_of(tensor.scalar_type())) {
    return user_error(field, text_of(tensor.scalar_type()), "Float, BFloat16 or Half");
  }
  const ManagedTensor* const managed = managed_tensor(tensor);
  if (managed == nullptr) return {};
  if (managed->keeper != mine) {
    return user_error(field, "in another engine", "a parameter of one engine at a time");
  }
  if (!managed->tensor.is_same(tensor)) {
    return user_error(field, "a view of the memory of " + managed->name,
                      "memory of its own, or the same tensor");
  }
  return {};
}

// Its storage holds it and nothing else.
bool fills_its_storage(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.storage().nbytes() == tensor.nbytes();
}

}  // namespace

void keep_memory(void* /*tensor*/) {}

std::optional<layout::DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return layout::DType::kFloat32;
    case at::kBFloat16:
      return layout::DType::kBFloat16;
    case at::kHalf:
      return layout::DType::kFloat16;
    default:
      return std::nullopt;
  }
}

at::ScalarType scalar_type_of(layout::DType dtype) {
  if (dtype == layout::DType::kBFloat16) return at::kBFloat16;
  return dtype == layout::DType::kFloat16 ? at::kHalf : at::kFloat;
}

Result<Adopted> adopt(const NamedTensors& named, const Keeper* mine) {
  Adopted adopted;
  std::unordered_map<const c10::TensorImpl*, layout::ParameterIndex> by_tensor;
  std::unordered_map<const c10::StorageImpl*, std::string> by_storage;
  for (const auto& [name, tensor] : named) {
    SHARDLIGHT_TRY_STATUS(check_parameter(name, tensor, mine));
    const auto known = by_tensor.find(tensor.unsafeGetTensorImpl());
    if (known != by_tensor.end()) {
      SHARDLIGHT_TRY_STATUS(adopted.table.alias(known->second, name));
      continue;
    }
    const auto [other, alone] = by_storage.emplace(tensor.storage().unsafeGetStorageImpl(), name);
    if (!alone) {
      return user_error("parameter " + name, "a view of the memory of " + other->second,
                        "memory of its own, or the same tensor under both names");
    }
    SHARDLIGHT_TRY(const auto index, adopted.table.add(name, tensor.sizes().vec(),
                                                       {.dtype = *dtype_of(tensor.scalar_type()),
                                                        .optimizer_group = 0,
                                                        .trainable = tensor.requires_grad()}));
    by_tensor.emplace(tensor.unsafeGetTensorImpl(), index);
    auto parameter = std::make_unique<ManagedTensor>();
    parameter->tensor = tensor;
    parameter->name = name;
    parameter->index = index;
    adopted.parameters.push_back(std::move(parameter));
  }
  for (auto& parameter : adopted.parameters) {
    if (!fills_its_storage(parameter->tensor)) {
      parameter->tensor.set_data(parameter->tensor.detach().contiguous().clone());
    }
    parameter->storage = parameter->tensor.storage();
    parameter->sizes = parameter->tensor.sizes().vec();
    parameter->type = parameter->tensor.scalar_type();
  }
  return adopted;
}

std::vector<at::Tensor> whole_storages(const NamedTensors& named) {
  std::vector<at::Tensor> whole;
  for (const auto& [name, tensor] : named) {
    if (check_parameter(name, tensor) && fills_its_storage(tensor)) whole.push_back(tensor);
  }
  return whole;
}

std::unique_ptr<ManagedTensor> gradient_of(const ManagedTensor& parameter) {
  auto gradient = std::make_unique<ManagedTensor>();
  gradient->name = parameter.name;
  gradient->index = parameter.index;
  gradient->unit = parameter.unit;
  gradient->offset = parameter.offset;
  gradient->sizes = parameter.sizes;
  gradient->type = parameter.type;
  at::DataPtr nowhere(nullptr, gradient.get(), &keep_memory, c10::DeviceType::CPU);
  gradient->storage = c10::Storage(c10::Storage::use_byte_size_t(), parameter.bytes(),
                                   std::move(nowhere), /*allocator=*/nullptr, /*resizable=*/false);
  gradient->tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(gradient->storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      parameter.tensor.dtype());
  gradient->tensor.unsafeGetTensorImpl()->set_sizes_contiguous(parameter.tensor.sizes());
  return gradient;
}

void point_at(ManagedTensor& tensor, std::byte* memory) {
  tensor.memory().set_data_ptr_noswap(
      at::DataPtr(memory, &tensor, &keep_memory, c10::DeviceType::CPU));
  tensor.memory().clear_data_ptr_access_error_msg_();
}

void take_away(ManagedTensor& tensor, std::string message) {
  tensor.memory().set_data_ptr_noswap(
      at::DataPtr(nullptr, &tensor, &keep_memory, c10::DeviceType::CPU));
  tensor.memory().release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
}

void shut(ManagedTensor& tensor) {
  tensor.memory().release_data_and_set_meta_custom_data_ptr_error_msg_(tensor.away);
}

void open(ManagedTensor& tensor) { tensor.memory().clear_data_ptr_access_error_msg_(); }

void let_go(ManagedTensor& tensor, const std::byte* values) {
  auto memory = c10::GetCPUAllocator()->allocate(tensor.bytes());
  if (values != nullptr && tensor.bytes() > 0) {
    std::memcpy(memory.get(), values, tensor.bytes());
  }
  tensor.memory().set_data_ptr_noswap(std::move(memory));
  tensor.memory().clear_data_ptr_access_error_msg_();
}

void retire(ManagedTensor& tensor, std::string message) {
  tensor.memory().set_data_ptr_noswap(at::DataPtr(nullptr, c10::DeviceType::CPU));
  tensor.memory().release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
}

bool is_managed(const ManagedTensor& managed) {
  return managed.memory()._mutable_data_ptr_no_checks().get_deleter() == &keep_memory;
}

bool intact(const ManagedTensor& managed) {
  const at::Tensor& tensor = managed.tensor;
  const auto* impl = tensor.unsafeGetTensorImpl();
  return impl->has_storage() &&
         impl->unsafe_storage().unsafeGetStorageImpl() == &managed.memory() &&
         managed_tensor(tensor) == &managed && tensor.sizes() == managed.sizes &&
         tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.scalar_type() == managed.type;
}

}  // namespace shardlight::engine
