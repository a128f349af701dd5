// How a model lies on the ranks: its units, the three placements, and the cut that the exchange
// goes by. Made once from the parameter table and the options; the same on all ranks but for
// `rank`. No torch. A value, immutable once made.
#pragma once

#include <vector>

#include "shardlight/engine/options.h"
#include "shardlight/layout/slice_table.h"

namespace shardlight::engine {

struct ModelLayout {
  layout::ParameterTable table;
  std::vector<layout::Unit> units;
  layout::Placements placements;
  layout::SliceTable exchanged;  // cut over all ranks: the shards and the sums
  layout::SliceTable stepped;    // what this rank's optimizer steps: a slice, or all of each unit
  Rank rank;
  std::int64_t world = 1;
  // Never the default; of a single micro-step, that micro-step.
  plan::ReduceSetting reduce = plan::ReduceSetting::kEveryMicroStep;
  comm::ReduceOrder order;

  // Of the unit, what other ranks own: what a gather of it moves.
  Bytes bytes_of_others(layout::UnitIndex unit) const {
    const Count own = exchanged.slice(unit, rank).size();
    return units[unit].bytes() - layout::bytes_per_element(units[unit].dtype) * own.value();
  }
  // Gradients are kept in memory of the rank's own until they are reduced; else each is reduced
  // from where backward left it.
  bool keeps_local_gradients() const {
    return !placements.gradients.sharded() || reduce == plan::ReduceSetting::kOnce;
  }
};

// Errors: those of placements_of and build_units.
Result<ModelLayout> lay_out(layout::ParameterTable table, const Options& options, Rank rank,
                            std::int64_t world);

std::vector<comm::UnitSpec> unit_specs(const ModelLayout& layout);

}  // namespace shardlight::engine
