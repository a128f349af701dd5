// The order in which a micro-step uses units, recorded each time and foreseen from the last time:
// what is used next, and when a unit will be used again. A use of the same unit twice in a row is
// one. What was not foreseen is counted, and the next micro-step foresees it. No torch; one thread
// at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardlight/layout/unit.h"

namespace shardlight::engine {

class UseTrace {
 public:
  explicit UseTrace(std::size_t units) : uses_of_(units) {}

  // False if it is the same unit as before.
  bool use(layout::UnitIndex unit);
  // The micro-step has ended: what was recorded is foreseen from now on.
  void end_micro_step();

  // What is foreseen after the last use, nearest first; empty in the first micro-step.
  std::span<const layout::UnitIndex> ahead() const;
  // Uses until the unit's next one is foreseen, 0 for the very next; none if no further one is.
  std::optional<std::size_t> distance(layout::UnitIndex unit) const;
  // Uses that were not foreseen, since the first micro-step ended.
  std::int64_t unforeseen() const { return unforeseen_; }

 private:
  std::vector<layout::UnitIndex> recorded_;
  std::vector<layout::UnitIndex> foreseen_;
  std::vector<std::vector<std::size_t>> uses_of_;  // by unit: positions in foreseen_
  std::size_t position_ = 0;                       // in foreseen_, of the next use
  std::int64_t unforeseen_ = 0;
};

}  // namespace shardlight::engine
