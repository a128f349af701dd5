// Parts of a gradient (transport.h), cut to a slice or a chunk of the unit and told to its owner.
// The parts ascend and do not overlap. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// Calls found(part) for what lies within [begin, end) of the unit, in order: each counted from
// `begin`, with the data that goes with it, if there is any; never empty.
template <class Found>
void each_within(std::span<const GradientPart> parts, std::int64_t begin, std::int64_t end,
                 layout::DType dtype, const Found& found) {
  const auto before = [](const GradientPart& part, std::int64_t at) {
    return (part.begin + part.elements).value() <= at;
  };
  for (auto part = std::lower_bound(parts.begin(), parts.end(), begin, before);
       part != parts.end() && part->begin.value() < end; ++part) {
    const std::int64_t first = std::max(begin, part->begin.value());
    const std::int64_t last = std::min(end, (part->begin + part->elements).value());
    if (last <= first) continue;
    const auto* data = static_cast<const std::byte*>(part->data);
    const std::int64_t skipped = first - part->begin.value();
    if (data != nullptr) data += (layout::bytes_per_element(dtype) * skipped).value();
    found(
        GradientPart{.begin = Count(first - begin), .elements = Count(last - first), .data = data});
  }
}

std::vector<GradientPart> parts_within(std::span<const GradientPart> parts, std::int64_t begin,
                                       std::int64_t end, layout::DType dtype);

std::int64_t elements_of(std::span<const GradientPart> parts);
std::int64_t elements_within(std::span<const GradientPart> parts, std::int64_t begin,
                             std::int64_t end);

// As it goes in a message: begin and elements in turn. What comes out has no data.
std::vector<std::int64_t> packed_parts(std::span<const GradientPart> parts);
std::vector<GradientPart> unpacked_parts(std::span<const std::int64_t> numbers);

// Gives the parts the data that stands there packed, one after another.
void point_into(std::span<GradientPart> parts, layout::DType dtype, const std::byte* packed);

}  // namespace shardlight::comm
