// The slice table: which rank owns which elements of which parameter, and where they lie. The one
// source for sharding, resharding, checkpoints, redundancy, recovery and the memory account.
//
// A unit is cut into `ways` slices of whole blocks, equal but for the last ones, which may be
// shorter or empty; member m of a sharding group owns slice m. A row is the part of one parameter
// that falls into one slice. There is one table for each placement of a state.
//
// A value, immutable once made; share it read-only between threads.
#pragma once

#include <span>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/placement.h"
#include "shardlight/layout/unit.h"

namespace shardlight::layout {

// Elements [begin, end) of a parameter, a unit or a slice.
struct ElementRange {
  Count begin = {};
  Count end = {};

  Count size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

struct SliceRow {
  ParameterIndex parameter = 0;
  ElementRange range;  // in the parameter; never empty
  UnitIndex unit = 0;
  std::int64_t member = 0;  // of the sharding group; it owns the range
  Count slice_offset = {};  // where the range begins in that member's slice of the unit

  bool operator==(const SliceRow&) const = default;
};

// Of every slice but the last ones, which may be shorter or empty; member 0 always has this many.
// `unit_elements` is a unit's, with padding.
Count slice_elements(Count unit_elements, std::int64_t ways);

class SliceTable {
 public:
  // Errors (user): as check_placement.
  static Result<SliceTable> create(const std::vector<Unit>& units, Placement placement,
                                   std::int64_t ranks);

  // By unit, then by offset in it, hence by member.
  const std::vector<SliceRow>& rows() const { return rows_; }
  // The rows in one rank's slice of one unit.
  std::span<const SliceRow> rows_of(UnitIndex unit, Rank rank) const;

  const Placement& placement() const { return placement_; }
  std::int64_t ranks() const { return ranks_; }
  std::int64_t replicas() const { return ranks_ / placement_.ways; }
  std::int64_t member_of(Rank rank) const { return rank.value() % placement_.ways; }
  // The rank that owns member's slices in sharding group `replica`, 0 <= replica < replicas().
  Rank holder(std::int64_t member, std::int64_t replica) const {
    return Rank(replica * placement_.ways + member);
  }

  std::size_t units() const { return unit_elements_.size(); }
  // The range of the unit that this rank owns, padding included; may be empty.
  ElementRange slice(UnitIndex unit, Rank rank) const;
  // All its slices together, padding included. Rank 0 has the most.
  Count elements_of(Rank rank) const;

 private:
  SliceTable(Placement placement, std::int64_t ranks) : placement_(placement), ranks_(ranks) {}
  void add_unit(const Unit& unit, UnitIndex index);

  Placement placement_;
  std::int64_t ranks_;
  std::vector<SliceRow> rows_;
  std::vector<std::size_t> first_row_;  // of each unit, and the number of rows at the end
  std::vector<Count> unit_elements_;    // padded
  std::vector<Count> slice_elements_;   // of every slice but the last ones
};

}  // namespace shardlight::layout
