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
  plan::GradientDtype grad_dtype = plan::GradientDtype::kFp32;

  // Of the unit, what other ranks own: what a gather of it moves.
  Bytes bytes_of_others(layout::UnitIndex unit) const {
    const Count own = exchanged.slice(unit, rank).size();
    return units[unit].bytes() - layout::bytes_per_element(units[unit].dtype) * own.value();
  }
  // What sums of the unit's gradients are kept and sent in.
  layout::DType sum_dtype(layout::UnitIndex unit) const {
    return grad_dtype == plan::GradientDtype::kCompute ? units[unit].dtype
                                                       : layout::DType::kFloat32;
  }
  Bytes sum_bytes(layout::UnitIndex unit, Count elements) const {
    return layout::bytes_per_element(sum_dtype(unit)) * elements.value();
  }
  // Of the unit's sum, what other ranks own.
  Bytes sum_bytes_of_others(layout::UnitIndex unit) const {
    return sum_bytes(unit, units[unit].elements - exchanged.slice(unit, rank).size());
  }
  // Where this rank's shard begins in the unit.
  std::size_t slice_begin_bytes(layout::UnitIndex unit) const {
    const auto begin = exchanged.slice(unit, rank).begin.value();
    return static_cast<std::size_t>((layout::bytes_per_element(units[unit].dtype) * begin).value());
  }
  // Gradients are kept in memory of the rank's own until they are reduced; else each is reduced
  // from where backward left it.
  bool keeps_local_gradients() const { return !placements.gradients.sharded() || reduces_once(); }
  bool reduces_once() const { return reduce == plan::ReduceSetting::kOnce; }
};

// Errors: those of placements_of and build_units.
Result<ModelLayout> lay_out(layout::ParameterTable table, const Options& options, Rank rank,
                            std::int64_t world);

std::vector<comm::UnitSpec> unit_specs(const ModelLayout& layout);

}  // namespace shardlight::engine
