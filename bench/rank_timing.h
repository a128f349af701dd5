// What the benchmarks of the exchange share: ranks as processes of this machine, and the time that
// their calls take, begun together. Not for tests: a mistake ends the process. One thread a rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

struct Timing {
  double wall = 0;  // milliseconds a call, the median over rounds of a round's mean
  double p50 = 0;   // milliseconds, the median call of this rank
  double cpu = 0;   // milliseconds a call, the mean over rounds and ranks
};

Deadline ample();
// Says what is wrong and ends the process.
void must(const Status& status);

// Of `call`, given 0, 1, …: in a process of several ranks, as often on each. `bytes` is what a call
// moves about: more of it, fewer calls.
Timing timed(Transport& transport, std::int64_t bytes, const std::function<void(int)>& call);

// One JSON line of rank 0: what, ranks, a size by name, and the timing.
void say(const Transport& transport, const std::string& what, const std::string& size,
         std::int64_t bytes, const Timing& timing);

// Each rank of a world of processes runs `body`; whether all of them ended well. Under mpirun this
// process is one of them, over mpi.
bool run_ranks(std::int64_t world, const std::vector<UnitSpec>& units,
               const std::function<void(Transport&)>& body);

// `bytes` of fp32, in slices as even as they can be; of whose sums there are none.
UnitSpec even_unit(const std::string& name, std::int64_t bytes, std::int64_t world);

}  // namespace shardlight::comm
