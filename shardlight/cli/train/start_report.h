// What a training run shows before its first step: every setting with its value and where that came
// from, and the plan. Pure; any thread.
#pragma once

#include "shardlight/cli/report.h"
#include "shardlight/cli/train/preparation.h"

namespace shardlight::cli {

Report start_report(const Preparation& preparation);

// The settings, one row each, without those that mean nothing beside the others.
Table settings_table(const TrainRequest& request);
// For `shardlight train --help`: paths, defaults, what is allowed, what for.
std::string settings_help();

}  // namespace shardlight::cli
