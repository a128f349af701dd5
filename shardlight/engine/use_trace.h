// The orders in which micro-steps use units: recorded each time and foreseen from the times before,
// so that it is known what is used next and when a unit will be used again. A model may go
// different ways in different micro-steps: the last ways are kept, the one that followed upon the
// last one before is foreseen, and where a micro-step leaves it, one that went as this one did so
// far. A use of the same unit twice in a row is one. No torch; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shardlight/layout/unit.h"

namespace shardlight::engine {

class UseTrace {
 public:
  // So many ways are kept; of more, the one that was not gone for longest is forgotten.
  static constexpr std::size_t kWays = 8;

  explicit UseTrace(std::size_t units) : units_(units) {}

  // False if it is the same unit as before.
  bool use(layout::UnitIndex unit);
  // The micro-step has ended.
  void end_micro_step();

  // What is foreseen after the last use, nearest first; empty in the first micro-step.
  std::span<const layout::UnitIndex> ahead() const;
  // Uses until the unit's next one is foreseen, 0 for the very next; none if no further one is.
  std::optional<std::size_t> distance(layout::UnitIndex unit) const;
  // Uses that were not foreseen, since the first micro-step ended.
  std::int64_t unforeseen() const { return unforeseen_; }

 private:
  struct Way {
    std::vector<layout::UnitIndex> uses;
    std::vector<std::vector<std::size_t>> uses_of = {};  // by unit: positions in uses
    std::optional<std::size_t> followed_by = {};         // the way that came after it
    std::int64_t gone = 0;                               // micro-step in which it was
  };

  std::size_t learn(std::vector<layout::UnitIndex> uses);
  std::optional<std::size_t> way_as_recorded() const;

  std::size_t units_;
  std::vector<layout::UnitIndex> recorded_;
  std::vector<Way> ways_;
  std::optional<std::size_t> foreseen_;  // of the ways
  std::optional<std::size_t> last_;      // that was gone
  std::size_t position_ = 0;             // in the foreseen one, of the next use
  std::int64_t micro_steps_ = 0;
  std::int64_t unforeseen_ = 0;
};

}  // namespace shardlight::engine
