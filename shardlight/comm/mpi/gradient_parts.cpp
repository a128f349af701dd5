#include "shardlight/comm/mpi/gradient_parts.h"

#include <algorithm>

#include "shardlight/comm/mpi/message.h"

namespace shardlight::comm {
namespace {

std::int64_t overlap(const GradientPart& part, std::int64_t begin, std::int64_t end) {
  return std::max<std::int64_t>(
      std::min(end, (part.begin + part.elements).value()) - std::max(begin, part.begin.value()), 0);
}

}  // namespace

std::vector<GradientPart> parts_within(std::span<const GradientPart> parts, std::int64_t begin,
                                       std::int64_t end, layout::DType dtype) {
  const std::int64_t each = layout::bytes_per_element(dtype).value();
  std::vector<GradientPart> within;
  for (const GradientPart& part : parts) {
    const std::int64_t elements = overlap(part, begin, end);
    if (elements == 0) continue;
    const std::int64_t first = std::max(begin, part.begin.value());
    const auto* data = static_cast<const std::byte*>(part.data);
    if (data != nullptr) data += (first - part.begin.value()) * each;
    within.push_back({.begin = Count(first - begin), .elements = Count(elements), .data = data});
  }
  return within;
}

std::int64_t elements_of(std::span<const GradientPart> parts) {
  std::int64_t elements = 0;
  for (const GradientPart& part : parts) elements += part.elements.value();
  return elements;
}

std::int64_t elements_within(std::span<const GradientPart> parts, std::int64_t begin,
                             std::int64_t end) {
  const auto before = [](const GradientPart& part, std::int64_t at) {
    return (part.begin + part.elements).value() <= at;
  };
  std::int64_t elements = 0;
  for (auto part = std::lower_bound(parts.begin(), parts.end(), begin, before);
       part != parts.end() && part->begin.value() < end; ++part) {
    elements += overlap(*part, begin, end);
  }
  return elements;
}

std::vector<std::int64_t> packed_parts(const std::vector<GradientPart>& parts) {
  std::vector<std::int64_t> numbers;
  for (const GradientPart& part : parts) {
    numbers.push_back(part.begin.value());
    numbers.push_back(part.elements.value());
  }
  return numbers;
}

std::vector<GradientPart> unpacked_parts(std::span<const std::byte> payload) {
  const auto numbers = values_of_bytes<std::int64_t>(payload);
  std::vector<GradientPart> parts;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    parts.push_back({.begin = Count(numbers[i]), .elements = Count(numbers[i + 1])});
  }
  return parts;
}

}  // namespace shardlight::comm
