// From one sharding of a model to any other: the list of copies that moves every element from a
// rank that has it to every rank that shall have it. Pure arithmetic over two slice tables.
// Moves nothing itself; any thread.
#pragma once

#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/slice_table.h"

namespace shardlight::layout {

// A range of one parameter, and where it lies in the slices of its source and its target.
struct ReshardCopy {
  Rank source, target;
  ParameterIndex parameter = 0;
  ElementRange range;  // in the parameter
  UnitIndex source_unit = 0;
  Count source_offset;  // in the source's slice of source_unit
  UnitIndex target_unit = 0;
  Count target_offset;  // in the target's slice of target_unit
};

// Copies by target rank, then by place in the target's slices. Every element of every slice of
// every target rank is written exactly once. A rank that already holds a range is its own source;
// otherwise the replicas of the source take turns by target rank.
//
// Both tables must have been made over the same parameters (by index and size), in units of any
// size; their numbers of ranks and their placements are free.
// Errors (user, `reshard`): an element of the target is not in the source.
Result<std::vector<ReshardCopy>> reshard(const SliceTable& from, const SliceTable& to);

}  // namespace shardlight::layout
