// The arithmetic of a reduce: gradients added into sums, each float32, bfloat16 or float16. Element
// by element in order, an addition is that of both in float32, rounded to the sum's dtype (to
// nearest, ties to even); so a result depends on nothing but its operands: not on length, alignment
// or the processor. Of two 16-bit operands that is the exact sum, rounded once.
// Spans own nothing; the caller sees to it that nobody else writes. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardlight/layout/dtype.h"

namespace shardlight::comm {

// Whether gradients of this dtype can be reduced, and sums kept in it: float32, float16, bfloat16.
bool can_reduce(layout::DType dtype);
inline constexpr const char* kReducedDTypes = "float32, float16 or bfloat16";  // for messages

// Elements of a unit's sum, in memory of somebody else.
class SumSpan {
 public:
  SumSpan() = default;
  explicit SumSpan(std::span<float> values)
      : data_(reinterpret_cast<std::byte*>(values.data())),
        elements_(static_cast<std::int64_t>(values.size())) {}
  // `data` is aligned to the dtype's size.
  SumSpan(std::byte* data, layout::DType dtype, Count elements)
      : data_(data), dtype_(dtype), elements_(elements) {}

  std::byte* data() const { return data_; }
  layout::DType dtype() const { return dtype_; }
  Count elements() const { return elements_; }
  bool empty() const { return elements_ == Count(0); }
  std::span<std::byte> bytes() const;
  // Of float32 only.
  std::span<float> floats() const;
  // `elements` of them from element `begin` on.
  SumSpan part(Count begin, Count elements) const;

 private:
  std::byte* data_ = nullptr;
  layout::DType dtype_ = layout::DType::kFloat32;
  Count elements_;
};

// sum[i] = source[i], or sum[i] + source[i], rounded, for all elements of the sum; a source of the
// sum's dtype is stored bit for bit.
void store_into(const SumSpan& sum, const void* source, layout::DType dtype);
void add_into(const SumSpan& sum, const void* source, layout::DType dtype);

}  // namespace shardlight::comm
