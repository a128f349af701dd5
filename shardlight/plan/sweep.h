// Many plans at once: the ledger over a grid of model sizes, worlds and stages. About ten
// nanoseconds a cell (bench/sweep_bench.cpp), so a million cells are interactive.
// Keeps nothing; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "shardlight/base/result.h"
#include "shardlight/plan/ledger.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::plan {

struct SweepCell {
  Count parameters;
  std::int64_t ranks;
  int stage;
  ModelStates states;
  Traffic traffic;  // one micro-step
};

struct SweepGrid {
  std::span<const Count> parameters;
  std::span<const std::int64_t> ranks;
  std::span<const int> stages;
};

// Calls `visit` for every cell, parameters slowest, stages fastest; keeps nothing itself.
// Errors (user): a stage, a number of ranks or of parameters out of range; found before any visit.
Status sweep(const SweepGrid& grid, StateBytes bytes,
             const std::function<void(const SweepCell&)>& visit);

}  // namespace shardlight::plan
