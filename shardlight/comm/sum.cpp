#include "shardlight/comm/sum.h"

#include <bit>
#include <cstring>

#include "shardlight/base/check.h"

namespace shardlight::comm {
namespace {

using layout::DType;

// The same loop for any x86-64 processor and for those with AVX2 and F16C; the loader picks one.
// Both give the same bits: one addition an element, nothing fused. The sanitizers' runtimes are not
// up yet when the loader asks.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SHARDLIGHT_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SHARDLIGHT_CLONES
#endif

// A bfloat16 is the upper half of a float32.
inline float widened(std::uint16_t bfloat16) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat16) << 16);
}

SHARDLIGHT_CLONES void add_float32(float* __restrict sum, const float* __restrict source,
                                   std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] += source[i];
}
SHARDLIGHT_CLONES void add_bfloat16(float* __restrict sum, const std::uint16_t* __restrict source,
                                    std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] += widened(source[i]);
}
SHARDLIGHT_CLONES void store_bfloat16(float* __restrict sum, const std::uint16_t* __restrict source,
                                      std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] = widened(source[i]);
}
SHARDLIGHT_CLONES void add_float16(float* __restrict sum, const _Float16* __restrict source,
                                   std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] += static_cast<float>(source[i]);
}
SHARDLIGHT_CLONES void store_float16(float* __restrict sum, const _Float16* __restrict source,
                                     std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] = static_cast<float>(source[i]);
}

}  // namespace

bool can_reduce(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

void store_as_float(float* sum, const void* source, DType dtype, std::int64_t elements) {
  switch (dtype) {
    case DType::kFloat32:
      std::memcpy(sum, source, static_cast<std::size_t>(elements) * sizeof(float));
      return;
    case DType::kBFloat16:
      return store_bfloat16(sum, static_cast<const std::uint16_t*>(source), elements);
    case DType::kFloat16:
      return store_float16(sum, static_cast<const _Float16*>(source), elements);
    default:
      SHARDLIGHT_CHECK_EQ(can_reduce(dtype), true);
  }
}

void add_as_float(float* sum, const void* source, DType dtype, std::int64_t elements) {
  switch (dtype) {
    case DType::kFloat32:
      return add_float32(sum, static_cast<const float*>(source), elements);
    case DType::kBFloat16:
      return add_bfloat16(sum, static_cast<const std::uint16_t*>(source), elements);
    case DType::kFloat16:
      return add_float16(sum, static_cast<const _Float16*>(source), elements);
    default:
      SHARDLIGHT_CHECK_EQ(can_reduce(dtype), true);
  }
}

}  // namespace shardlight::comm
