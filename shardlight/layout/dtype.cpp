#include "shardlight/layout/dtype.h"

#include <array>

namespace shardlight::layout {
namespace {

struct Row {
  DType dtype;
  std::int64_t bytes;
  std::string_view safetensors;
  std::string_view torch;
};

// In the order of the enum, floating types first.
constexpr std::array<Row, 15> kRows = {{
    {DType::kFloat64, 8, "F64", "float64"},
    {DType::kFloat32, 4, "F32", "float32"},
    {DType::kFloat16, 2, "F16", "float16"},
    {DType::kBFloat16, 2, "BF16", "bfloat16"},
    {DType::kFloat8E4M3, 1, "F8_E4M3", "float8_e4m3fn"},
    {DType::kFloat8E5M2, 1, "F8_E5M2", "float8_e5m2"},
    {DType::kInt64, 8, "I64", "int64"},
    {DType::kInt32, 4, "I32", "int32"},
    {DType::kInt16, 2, "I16", "int16"},
    {DType::kInt8, 1, "I8", "int8"},
    {DType::kUInt64, 8, "U64", "uint64"},
    {DType::kUInt32, 4, "U32", "uint32"},
    {DType::kUInt16, 2, "U16", "uint16"},
    {DType::kUInt8, 1, "U8", "uint8"},
    {DType::kBool, 1, "BOOL", "bool"},
}};

constexpr bool rows_follow_enum() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_enum());

const Row& row_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

Bytes bytes_per_element(DType dtype) { return Bytes(row_of(dtype).bytes); }

bool is_floating(DType dtype) { return dtype <= DType::kFloat8E5M2; }

std::string_view safetensors_name(DType dtype) { return row_of(dtype).safetensors; }

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.safetensors == name) return row.dtype;
  }
  return std::nullopt;
}

std::string_view torch_name(DType dtype) { return row_of(dtype).torch; }

}  // namespace shardlight::layout
