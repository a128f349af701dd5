#include "shardlight/comm/gradient_parts.h"

namespace shardlight::comm {

std::vector<GradientPart> parts_within(std::span<const GradientPart> parts, std::int64_t begin,
                                       std::int64_t end, layout::DType dtype) {
  std::vector<GradientPart> within;
  each_within(parts, begin, end, dtype, [&](const GradientPart& part) { within.push_back(part); });
  return within;
}

std::int64_t elements_of(std::span<const GradientPart> parts) {
  std::int64_t elements = 0;
  for (const GradientPart& part : parts) elements += part.elements.value();
  return elements;
}

std::int64_t elements_within(std::span<const GradientPart> parts, std::int64_t begin,
                             std::int64_t end) {
  std::int64_t elements = 0;
  each_within(parts, begin, end, layout::DType::kFloat32,
              [&](const GradientPart& part) { elements += part.elements.value(); });
  return elements;
}

std::vector<std::int64_t> packed_parts(std::span<const GradientPart> parts) {
  std::vector<std::int64_t> numbers;
  for (const GradientPart& part : parts) {
    numbers.push_back(part.begin.value());
    numbers.push_back(part.elements.value());
  }
  return numbers;
}

std::vector<GradientPart> unpacked_parts(std::span<const std::int64_t> numbers) {
  std::vector<GradientPart> parts;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    parts.push_back({.begin = Count(numbers[i]), .elements = Count(numbers[i + 1])});
  }
  return parts;
}

void point_into(std::span<GradientPart> parts, layout::DType dtype, const std::byte* packed) {
  for (GradientPart& part : parts) {
    part.data = packed;
    packed += (layout::bytes_per_element(dtype) * part.elements.value()).value();
  }
}

}  // namespace shardlight::comm
