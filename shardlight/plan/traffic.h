// What a rank sends and receives in one optimizer step, as passes over the model: a pass is one
// all-gather or reduce-scatter of all parameters or all gradients.
//
// Source: the ZeRO paper (2020), sections 7 and 8 (2Ψ elements for stages 0-2, 3Ψ for stage 3);
// ring and direct exchanges move (N-1)/N of that on a rank's wire.
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "shardlight/layout/placement.h"
#include "shardlight/plan/precision.h"
#include "shardlight/plan/share.h"

namespace shardlight::plan {

enum class Collective { kAllGather, kReduceScatter };

// When the gradients of several micro-steps are reduced.
enum class ReduceSetting {
  kDefault,  // every micro-step where gradients are sharded, else once
  kOnce,     // accumulate locally, reduce at the step; keeps full gradients
  kEveryMicroStep,
};
std::string_view name_of(ReduceSetting setting);

struct Pass {
  Collective collective;
  std::int64_t times;              // a step
  std::int64_t bytes_per_element;  // of what is sent
};

// The passes of one step, every unit released after its use. Replicated gradients are all-reduced:
// a reduce-scatter and an all-gather. Of a stage: hybrid placements exchange across their groups
// too, which is not modelled here (literature.h). Sharded parameters are gathered for the forward
// and again for the backward of each of `accumulation_steps`; replicated ones once, where the
// optimizer is sharded.
std::vector<Pass> passes_of_step(const layout::Placements& placements, StateBytes bytes,
                                 std::int64_t accumulation_steps, ReduceSetting reduce);

struct Traffic {
  std::int64_t elements_per_parameter = 0;  // the paper's 2 or 3 (Ψ)
  Share bytes;                              // Ψ times the bytes of what is sent
  Share bytes_on_wire;                      // times (N-1)/N: what a rank sends
};

Traffic traffic_of(const std::vector<Pass>& passes, Count parameters, std::int64_t ranks);

// What stage 1 sends, by three sources that disagree; shown side by side, none ruled out.
struct StageOneSource {
  std::string source;
  std::string how;
  std::int64_t elements_per_parameter;
  Share bytes;
};
std::vector<StageOneSource> stage_one_sources(Count parameters, StateBytes bytes);

}  // namespace shardlight::plan
