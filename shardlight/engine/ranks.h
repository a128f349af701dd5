// Who the ranks of an engine are, and how this one meets the others: a place in the world, and the
// way to a transport once the units are known. No torch. A value; connect is called once.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::engine {

struct Ranks {
  Rank rank;
  std::int64_t world = 1;
  std::function<Result<std::unique_ptr<comm::Transport>>(const std::vector<comm::UnitSpec>& units)>
      connect;
};

// This process among the processes of its host, by its launcher's variables (comm/place.h), over
// shared memory; one rank by itself where there is no launcher. The n-th call in a process meets
// the n-th of the others. Errors: those of place_of, and a launcher that spans hosts.
Result<Ranks> ranks_of_host(Seconds deadline);

// N ranks as threads of this process, by rank: each entry is for one engine in one thread. An
// engine's constructor waits for the others'.
std::vector<Ranks> ranks_as_threads(std::int64_t world);

}  // namespace shardlight::engine
