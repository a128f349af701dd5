// The sum of a unit's gradients within one rank's slice, added up by its owner in the unit's order
// (reduce_order.h) as the ranks' contributions come, chunk by chunk: each chunk takes the ranks in
// ascending order, so the bits are those of the transports that share memory. For one thread at a
// time; owns the sum.
#pragma once

#include <map>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

class SliceSum {
 public:
  // Of the unit's elements that `owner` has.
  SliceSum(const UnitSpec& unit, Rank owner, Count chunk_elements);

  std::int64_t chunks() const { return static_cast<std::int64_t>(turns_.size()); }
  Count chunk_begin(std::int64_t chunk) const { return chunk_ * chunk; }
  Count chunk_size(std::int64_t chunk) const;

  // All ranks are to come again; `fresh`: to an empty sum.
  void begin_round(bool fresh);
  // Whose contribution the chunk takes next; the number of ranks when it has had all.
  std::int64_t turn(std::int64_t chunk) const { return turns_[static_cast<std::size_t>(chunk)]; }
  // The next one's, with parts by elements of the slice; no parts anywhere and `passes`: nothing.
  void add(std::int64_t chunk, const Gradient& gradient, bool passes);
  // Whether every chunk has had every rank.
  bool complete() const { return chunks_open_ == 0; }

  // Empty unless some rank had a gradient since the sum was fresh.
  bool filled() const { return filled_.front(); }
  SumSpan sum() { return span_of(sum_); }

 private:
  using Memory = std::vector<std::byte>;

  Memory memory_for(Count elements) const;
  SumSpan span_of(Memory& values) const;
  void add_step(std::int64_t chunk, const ReduceStep& step, const Gradient& gradient, bool passes);

  std::int64_t world_;
  layout::DType dtype_;
  Count elements_;
  Count chunk_;
  std::vector<std::vector<ReduceStep>> steps_;  // by rank
  Memory sum_;
  std::vector<std::int64_t> turns_;  // by chunk
  std::vector<bool> filled_;         // by chunk
  std::int64_t chunks_open_ = 0;
  // Partial sums that are not merged yet, by chunk: by buffer.
  std::vector<std::map<int, Memory>> partials_;
};

}  // namespace shardlight::comm
