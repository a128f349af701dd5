// A rank's place in its job, from the environment variables of whoever started it: `shardlight
// launch`, torchrun, Open MPI, MPICH, Slurm; none of them: one rank by itself. The first in this
// order whose rank is given counts, and its variables alone are read; but SHARDLIGHT_JOB, where it
// is given, always names the job. Pure; any thread.
#pragma once

#include <string>

#include "shardlight/base/environment.h"
#include "shardlight/base/quantity.h"

namespace shardlight::comm {

struct Place {
  std::string launcher;  // "shardlight launch", "torchrun", …; "" for one rank by itself
  std::string job;       // the same on all ranks of the job; "" for one rank by itself
  Rank rank;
  std::int64_t world = 1;
  // Among the ranks of this host; the same as rank and world where the launcher does not say.
  Rank rank_local;
  std::int64_t world_local = 1;
};

// A user error that names the variable: one that is missing beside others of its launcher, is no
// number, or contradicts them (a rank beyond its world).
Result<Place> place_of(const Environment& environment);

}  // namespace shardlight::comm
