// Which cores a rank computes on: those this process may use, divided among the ranks of the host.
// Ranks of our own launcher are pinned to theirs; where another launcher started them, where they
// run is its business, and only the number of threads is taken. Call it before any thread is
// started: they inherit it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardlight/comm/place.h"

namespace shardlight::cli {

struct Cores {
  std::int64_t threads = 1;   // to compute with
  std::vector<int> pinned{};  // to these cores; empty: not pinned

  std::string text() const;  // "1 thread, pinned to core 0"
};

// The share of rank `local` of `world_local` in `allowed`; `threads` 0: as many as it has cores.
// More ranks than cores take turns on them. Pure.
Cores share_of_cores(const std::vector<int>& allowed, std::int64_t local, std::int64_t world_local,
                     std::int64_t threads);

// The same of this process, and pins it. A system that does not tell or pin: not pinned.
Cores take_cores(const comm::Place& place, std::int64_t threads);

}  // namespace shardlight::cli
