// The ledger of model states: exact bytes per rank of parameters, gradients and optimizer states
// for any placements. A floor: padding, buckets, gathered units, activations and temporaries are
// lines of their own (residuals.h, activations.h) and never folded in.
//
// Source: the ZeRO paper (2020), section 5 and figure 1; with b bytes a parameter and a gradient
// and K optimizer bytes, stages 0-3 cost (2b+K)Ψ, 2bΨ+KΨ/N, bΨ+(b+K)Ψ/N, (2b+K)Ψ/N.
// Pure; any thread.
#pragma once

#include <cstdint>

#include "shardlight/layout/placement.h"
#include "shardlight/plan/precision.h"
#include "shardlight/plan/share.h"

namespace shardlight::plan {

// Ψ up to this many parameters: every product below stays within 128 bits, and the bytes of
// a rank's states within 64. What a long accumulation sends may not (make_plan refuses it).
inline constexpr std::int64_t kMaxParameters = 100'000'000'000'000'000;  // 10^17

// Ψ in [1, kMaxParameters], or a user error of the field `parameters`.
Status check_parameters(Count parameters);

struct ModelStates {
  Share parameters, gradients, optimizer;

  Share total() const { return parameters + gradients + optimizer; }
};

// `ranks` and the placements must agree (layout::placements_of_stage).
ModelStates model_states(Count parameters, StateBytes bytes, const layout::Placements& placements,
                         std::int64_t ranks);

// How many times smaller the states are than replicated ones of the same precision and optimizer.
double compression_ratio(Count parameters, StateBytes bytes, const ModelStates& states);

// The most parameters whose states alone fit: the largest Ψ with states(Ψ) <= memory.
Count largest_model(Bytes memory, StateBytes bytes, const layout::Placements& placements,
                    std::int64_t ranks);

}  // namespace shardlight::plan
