#include "shardlight/comm/gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardlight/comm/gradient_parts.h"
#include "shardlight/comm/sum.h"

namespace shardlight::comm {
namespace {

Failure part_error(std::size_t index, const char* member, Count value, const std::string& allowed) {
  return user_error(fmt::format("gradient.parts[{}].{}", index, member),
                    fmt::to_string(value.value()), allowed);
}

}  // namespace

Status check_gradient(const UnitSpec& unit, const Gradient& gradient) {
  if (gradient.parts.empty()) return {};
  if (!can_reduce(gradient.dtype)) {
    return user_error("gradient.dtype", std::string(layout::torch_name(gradient.dtype)),
                      kReducedDTypes);
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
  const std::int64_t within =
      elements_within(gradient.parts, begin.value(), (begin + elements).value());
  return layout::bytes_per_element(gradient.dtype) * (elements_of(gradient.parts) - within);
}

void store_parts(const SumSpan& sum, const Gradient& gradient, std::int64_t begin) {
  Count stored;
  const auto store_zeros = [&](Count end) {
    std::ranges::fill(sum.part(stored, end - stored).bytes(), std::byte{0});
  };
  each_within(gradient.parts, begin, begin + sum.elements().value(), gradient.dtype,
              [&](const GradientPart& part) {
                store_zeros(part.begin);
                store_into(sum.part(part.begin, part.elements), part.data, gradient.dtype);
                stored = part.begin + part.elements;
              });
  store_zeros(sum.elements());
}

void add_parts(const SumSpan& sum, const Gradient& gradient, std::int64_t begin) {
  each_within(gradient.parts, begin, begin + sum.elements().value(), gradient.dtype,
              [&](const GradientPart& part) {
                add_into(sum.part(part.begin, part.elements), part.data, gradient.dtype);
              });
}

}  // namespace shardlight::comm
