// Units and gradients of all shapes that an exchange must cope with. Pure.
// What the conformance suite and the training steps run on; the numbers in them are reference.h's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// Slices as even as they can be.
UnitSpec unit_of(std::string name, std::int64_t elements, std::int64_t world);
// Every order, with sums of every dtype, over lengths that fill chunks, do not divide and leave
// slices empty; a frozen one, and some that each rank keeps whole.
std::vector<UnitSpec> units_of_all_shapes(std::int64_t world);

// float32, bfloat16 and float16 in turn.
layout::DType reduced_dtype(std::size_t index);

// [begin, end) of a unit's elements.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
using Stretches = std::vector<Stretch>;

// Where a gradient of a unit has parts, at least one: all of it, with gaps, of nothing.
Stretches stretches_within(std::int64_t elements, std::uint64_t key);

}  // namespace shardlight::comm
