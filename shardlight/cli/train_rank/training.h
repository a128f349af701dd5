// One rank of a training run, from the model's first weights to the summary: the loop that a
// user would write in five lines, with what is seen of it around. Rank 0 shows and writes; all take
// part in all that is collective. Internal to shardlight-train; one thread a rank.
#pragma once

#include <functional>
#include <iosfwd>

#include "shardlight/cli/train/cores.h"
#include "shardlight/cli/train/interrupt.h"
#include "shardlight/cli/train/preparation.h"
#include "shardlight/engine/ranks.h"

namespace shardlight::cli {

// The same for all ranks of a process.
struct RankRun {
  const Preparation& preparation;
  Cores cores;
  const Interrupt& interrupt;
  std::ostream& out;
  bool terminal = false;
  bool colour = false;
  // Says what went wrong and ends the process: others must not wait for a rank that cannot go on,
  // and the engine's own end would wait for them.
  std::function<void(const Error& error)> fail;
};

void train_as_rank(const RankRun& run, const engine::Ranks& ranks);

}  // namespace shardlight::cli
