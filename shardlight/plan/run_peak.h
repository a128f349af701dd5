// The highest sum of a rank's memory in a run of our GPT on the engine: what stays, which follows
// from the layout, and over it what a micro-step takes and gives (gpt_step.h), with gradients that
// wait until their unit is whole. Of rank 0, which has the most. Not the memory of data, kernels'
// libraries or the allocator.
// Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "shardlight/layout/slice_table.h"
#include "shardlight/plan/gpt_step.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::plan {

struct RunMemory {
  layout::Placements placements;
  std::int64_t ranks = 1;
  std::int64_t optimizer_states = 2;  // fp32 values a parameter
  std::int64_t accumulation = 1;
  ReduceSetting reduce = ReduceSetting::kDefault;
  bool reproducible = false;            // reduces once, from local sums in a tree
  std::int64_t partial_sums = 0;        // slices a unit, beside the sum, that the order adds in
  Bytes bucket_bytes{0};                // as the engine's option
  std::optional<Bytes> gathered_bytes;  // as the engine's option
  bool shared_units = false;            // sharded parameters are read in place
};

struct RunPeak {
  Bytes parameters, gathered, gradients, optimizer;  // for good; gradients: all that is not passing
  Bytes passing;                                     // activations, temporaries and buckets
  Bytes total() const { return parameters + gathered + gradients + optimizer + passing; }
};

// `units` of the model's table, all of them trained. Errors (user): as gpt_step() and
// SliceTable::create().
Result<RunPeak> run_peak(const std::vector<layout::Unit>& units, const RunMemory& run,
                         const GptStep& step);

}  // namespace shardlight::plan
