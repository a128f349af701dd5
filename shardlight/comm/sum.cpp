#include "shardlight/comm/sum.h"

#include <bit>
#include <cstring>

#include "shardlight/base/check.h"

namespace shardlight::comm {
namespace {

using layout::DType;

// The same loops for any x86-64 processor and for those with AVX2 and F16C; the loader picks one.
// Both give the same bits: one addition an element, nothing fused. The sanitizers' runtimes are not
// up yet when the loader asks.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SHARDLIGHT_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SHARDLIGHT_CLONES
#endif

// The upper half of a float32.
struct BFloat16 {
  std::uint16_t bits;
};

inline float widened(float value) { return value; }
inline float widened(_Float16 value) { return static_cast<float>(value); }
inline float widened(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline void round_to(float& target, float value) { target = value; }
inline void round_to(_Float16& target, float value) { target = static_cast<_Float16>(value); }
// What is added carries into the upper half above its middle, and at the middle if that is odd.
inline void round_to(BFloat16& target, float value) {
  constexpr std::uint32_t kNaN = 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  target.bits = static_cast<std::uint16_t>(value != value ? kNaN : rounded);
}

// All that a clone does is inlined into it, to be compiled for its processor.
#define SHARDLIGHT_WITHIN_CLONE [[gnu::always_inline]] inline

template <bool kAdds, class Sum, class Source>
SHARDLIGHT_WITHIN_CLONE void each_element(Sum* __restrict sum, const Source* __restrict source,
                                          std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value = widened(source[i]);
    round_to(sum[i], kAdds ? widened(sum[i]) + value : value);
  }
}

template <bool kAdds, class Sum>
SHARDLIGHT_WITHIN_CLONE void by_source(Sum* sum, const void* source, DType dtype,
                                       std::int64_t elements) {
  switch (dtype) {
    case DType::kFloat32:
      return each_element<kAdds>(sum, static_cast<const float*>(source), elements);
    case DType::kBFloat16:
      return each_element<kAdds>(sum, static_cast<const BFloat16*>(source), elements);
    case DType::kFloat16:
      return each_element<kAdds>(sum, static_cast<const _Float16*>(source), elements);
    default:
      SHARDLIGHT_CHECK_EQ(can_reduce(dtype), true);
  }
}

template <bool kAdds>
SHARDLIGHT_WITHIN_CLONE void by_sum(const SumSpan& sum, const void* source, DType dtype) {
  const std::int64_t elements = sum.elements().value();
  switch (sum.dtype()) {
    case DType::kFloat32:
      return by_source<kAdds>(reinterpret_cast<float*>(sum.data()), source, dtype, elements);
    case DType::kBFloat16:
      return by_source<kAdds>(reinterpret_cast<BFloat16*>(sum.data()), source, dtype, elements);
    case DType::kFloat16:
      return by_source<kAdds>(reinterpret_cast<_Float16*>(sum.data()), source, dtype, elements);
    default:
      SHARDLIGHT_CHECK_EQ(can_reduce(sum.dtype()), true);
  }
}

SHARDLIGHT_CLONES void add_all(const SumSpan& sum, const void* source, DType dtype) {
  by_sum<true>(sum, source, dtype);
}
SHARDLIGHT_CLONES void store_all(const SumSpan& sum, const void* source, DType dtype) {
  by_sum<false>(sum, source, dtype);
}

}  // namespace

bool can_reduce(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

std::span<std::byte> SumSpan::bytes() const {
  const Bytes bytes = layout::bytes_per_element(dtype_) * elements_.value();
  return {data_, static_cast<std::size_t>(bytes.value())};
}

std::span<float> SumSpan::floats() const {
  SHARDLIGHT_CHECK_EQ(dtype_, DType::kFloat32);
  return {reinterpret_cast<float*>(data_), static_cast<std::size_t>(elements_.value())};
}

SumSpan SumSpan::part(Count begin, Count elements) const {
  SHARDLIGHT_CHECK_LE((begin + elements).value(), elements_.value());
  const Bytes skipped = layout::bytes_per_element(dtype_) * begin.value();
  return {data_ + skipped.value(), dtype_, elements};
}

void store_into(const SumSpan& sum, const void* source, DType dtype) {
  if (sum.dtype() == dtype) {
    const std::span<std::byte> bytes = sum.bytes();
    if (!bytes.empty()) std::memcpy(bytes.data(), source, bytes.size());
    return;
  }
  store_all(sum, source, dtype);
}

void add_into(const SumSpan& sum, const void* source, DType dtype) { add_all(sum, source, dtype); }

}  // namespace shardlight::comm
