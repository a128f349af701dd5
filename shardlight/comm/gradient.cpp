#include "shardlight/comm/gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardlight/comm/sum.h"

namespace shardlight::comm {
namespace {

Failure part_error(std::size_t index, const char* member, Count value, const std::string& allowed) {
  return user_error(fmt::format("gradient.parts[{}].{}", index, member),
                    fmt::to_string(value.value()), allowed);
}

// Calls found(offset into the stretch, data, elements) for what lies within it, in order.
template <class Found>
void each_within(const Gradient& gradient, std::int64_t begin, std::int64_t elements,
                 const Found& found) {
  const std::int64_t each = layout::bytes_per_element(gradient.dtype).value();
  const std::int64_t end = begin + elements;
  const auto ends_after = [](std::int64_t at, const GradientPart& part) {
    return at < (part.begin + part.elements).value();
  };
  auto part = std::upper_bound(gradient.parts.begin(), gradient.parts.end(), begin, ends_after);
  for (; part != gradient.parts.end() && part->begin.value() < end; ++part) {
    const std::int64_t first = std::max(begin, part->begin.value());
    const std::int64_t last = std::min(end, (part->begin + part->elements).value());
    const auto* data = static_cast<const std::byte*>(part->data);
    if (last > first) {
      found(first - begin, data + (first - part->begin.value()) * each, last - first);
    }
  }
}

}  // namespace

Status check_gradient(const UnitSpec& unit, const Gradient& gradient) {
  if (gradient.parts.empty()) return {};
  if (!can_reduce(gradient.dtype)) {
    return user_error("gradient.dtype", std::string(layout::torch_name(gradient.dtype)),
                      "float32, float16 or bfloat16");
  }
  const Count all = unit.elements();
  Count free;
  for (std::size_t i = 0; i < gradient.parts.size(); ++i) {
    const GradientPart& part = gradient.parts[i];
    if (part.begin < free || part.begin > all) {
      return part_error(i, "begin", part.begin,
                        fmt::format("{} to {}: parts of {} ascend and do not overlap", free.value(),
                                    all.value(), unit.name));
    }
    if (part.elements < Count(0) || part.elements > all - part.begin) {
      return part_error(i, "elements", part.elements,
                        fmt::format("0 to {}: {} has {} elements", (all - part.begin).value(),
                                    unit.name, all.value()));
    }
    if (part.data == nullptr && part.elements > Count(0)) {
      return user_error(fmt::format("gradient.parts[{}].data", i), "",
                        fmt::format("{} elements", part.elements.value()));
    }
    free = part.begin + part.elements;
  }
  return {};
}

Bytes bytes_of(const Gradient& gradient) { return bytes_outside(gradient, Count(0), Count(0)); }

Bytes bytes_outside(const Gradient& gradient, Count begin, Count elements) {
  const std::int64_t end = (begin + elements).value();
  std::int64_t outside = 0;
  for (const GradientPart& part : gradient.parts) {
    const std::int64_t within = std::min((part.begin + part.elements).value(), end) -
                                std::max(part.begin.value(), begin.value());
    outside += part.elements.value() - std::max<std::int64_t>(within, 0);
  }
  return layout::bytes_per_element(gradient.dtype) * outside;
}

void store_parts(float* sum, const Gradient& gradient, std::int64_t begin, std::int64_t elements) {
  std::int64_t stored = 0;
  each_within(gradient, begin, elements,
              [&](std::int64_t offset, const void* data, std::int64_t length) {
                std::fill(sum + stored, sum + offset, 0.0F);
                store_as_float(sum + offset, data, gradient.dtype, length);
                stored = offset + length;
              });
  std::fill(sum + stored, sum + elements, 0.0F);
}

void add_parts(float* sum, const Gradient& gradient, std::int64_t begin, std::int64_t elements) {
  each_within(gradient, begin, elements,
              [&](std::int64_t offset, const void* data, std::int64_t length) {
                add_as_float(sum + offset, data, gradient.dtype, length);
              });
}

}  // namespace shardlight::comm
