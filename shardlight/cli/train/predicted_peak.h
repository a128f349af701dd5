// A training run's highest memory, from its config before it starts (plan/run_peak.h), and beside
// what the engine's account says at its end. Nothing where the account of a step knows
// none: dropout with a single sequence or head. Needs no torch. Pure; any thread.
#pragma once

#include <optional>

#include "shardlight/cli/report.h"
#include "shardlight/cli/train/preparation.h"
#include "shardlight/plan/run_peak.h"

namespace shardlight::cli {

// Of rank 0, at these placements and the config's other settings.
std::optional<plan::RunPeak> predicted_peak(const Preparation& preparation,
                                            const layout::Placements& placements);

// `measured`: of rank 0, over the whole run. Its placements are the config's.
Table peak_table(const Preparation& preparation, Bytes measured);

}  // namespace shardlight::cli
