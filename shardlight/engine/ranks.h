// Who the ranks of an engine are, and how this one meets the others: a place in the world, and the
// way to a transport once the units are known. No torch. A value; the n-th call of connect meets
// the n-th of the other ranks, and an engine that builds its model makes one more.
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
// shared memory; one rank by itself where there is no launcher. Calls of connect count over the
// process. Errors: those of place_of, and a launcher that spans hosts.
Result<Ranks> ranks_of_host(Seconds deadline);

// N ranks as threads of this process, by rank. An engine's constructor waits for the others'.
std::vector<Ranks> ranks_as_threads(std::int64_t world);

}  // namespace shardlight::engine
