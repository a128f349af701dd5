// What a rank holds beyond the ledger's floor, each on its own line, computed from the units and
// slice tables the engine lays out. A line nobody can know is absent, never zero.
// Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "shardlight/layout/slice_table.h"
#include "shardlight/plan/precision.h"
#include "shardlight/plan/share.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::plan {

struct Residuals {
  // Bytes that the rank with the most (rank 0) holds above the ledger's share: block padding and
  // slices that do not divide evenly.
  std::optional<Share> padding;
  // The two largest neighbouring units, the one in use and the one gathered ahead.
  std::optional<Bytes> gathered_units;
  // Full gradients of two units on their way to their owners.
  std::optional<Bytes> buckets;
  // Full local gradients that `reduce: once` keeps over the micro-steps; 0 where gradients are
  // replicated anyway or reduced every micro-step.
  Bytes unreduced_gradients;
};

struct ResidualRequest {
  Count parameters;
  std::int64_t ranks = 1;
  StateBytes bytes;
  std::int64_t accumulation_steps = 1;
  ReduceSetting reduce = ReduceSetting::kDefault;
};

// Without units only unreduced_gradients, and what is zero because nothing is sharded, is known.
Residuals residuals(const std::optional<std::vector<layout::Unit>>& units,
                    const layout::Placements& placements, const ResidualRequest& request);

}  // namespace shardlight::plan
