// Ranks as processes of one host: the exchange over a memfd that rank 0 makes and hands to the
// others over an abstract UNIX socket, so that nothing is left behind in /dev/shm or the file
// system, however the ranks end. Dead processes are noticed through pidfds.
//
// Connecting is done once by one thread a process; the transport is as in transport.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

struct ShmOptions {
  std::string job;  // the same on all ranks, told apart from other jobs of this user
  Rank rank;
  std::int64_t world = 1;
};

// Meets the other ranks of the job, in any order of coming. All of them give the same world and
// units; a difference, a rank that comes twice, one that dies meanwhile are errors of every rank
// that is there, named by rank. Errors: user errors for options and units (`job`, `rank`, `world`,
// or as check_units), else environment errors of the operation connect; the communicator is gone.
Result<std::unique_ptr<Transport>> connect_shm(const ShmOptions& options,
                                               std::vector<UnitSpec> units, Deadline deadline);

}  // namespace shardlight::comm
