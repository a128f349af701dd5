// Ranks as threads of one process: for tests, and for N ranks in one debugger. The same exchange as
// between processes, over anonymous memory. Each transport is given to the thread that is its rank;
// they may be destroyed in any order, and the memory goes with the last.
#pragma once

#include <memory>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// One transport a rank, by rank. Errors: a user error where check_units has one or world is not
// within 1 and 128 (`world`), an environment error where there is no memory.
Result<std::vector<std::unique_ptr<Transport>>> make_threads_world(
    const std::vector<UnitSpec>& units, std::int64_t world);

}  // namespace shardlight::comm
