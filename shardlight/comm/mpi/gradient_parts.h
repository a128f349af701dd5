// Parts of a gradient (transport.h), cut to a slice or a chunk and told to the slice's owner. The
// parts ascend and do not overlap. Pure; any thread. Internal to comm/mpi.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// What lies within [begin, end) of the unit, counted from there, with the data that goes with it.
std::vector<GradientPart> parts_within(std::span<const GradientPart> parts, std::int64_t begin,
                                       std::int64_t end, layout::DType dtype);

std::int64_t elements_of(std::span<const GradientPart> parts);
std::int64_t elements_within(std::span<const GradientPart> parts, std::int64_t begin,
                             std::int64_t end);

// As it goes in a message: begin and elements in turn. What comes out has no data.
std::vector<std::int64_t> packed_parts(const std::vector<GradientPart>& parts);
std::vector<GradientPart> unpacked_parts(std::span<const std::byte> payload);

}  // namespace shardlight::comm
