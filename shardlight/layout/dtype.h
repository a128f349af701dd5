// Element types of tensors, with their size and their names in safetensors files and in torch.
// Constant data; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "shardlight/base/quantity.h"

namespace shardlight::layout {

enum class DType {
  // Floating types first (is_floating).
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
};

Bytes bytes_per_element(DType dtype);

// Whether a tensor of it can be a parameter; integers and flags are buffers.
bool is_floating(DType dtype);

// "F32", "BF16", … as safetensors writes them.
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

// "float32", "bfloat16", … as torch writes them, without its "torch." prefix.
std::string_view torch_name(DType dtype);

}  // namespace shardlight::layout
