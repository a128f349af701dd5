// Numbers of all ranks on every rank: losses for the log, bytes for the summary. Over the
// transport's small sums, in which each rank fills its own places. Collective; the thread that
// makes the transport's small calls.
#pragma once

#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::cli {

// By rank, what each gave; all give equally many. Exact: each place has one number and zeros.
Result<std::vector<std::vector<double>>> values_of_ranks(comm::Transport& transport,
                                                         const std::vector<double>& own,
                                                         comm::Deadline deadline);

// The mean of the first `count` values of each rank, added in the order of the global micro-batch:
// the same bits for any split of equal micro-batches over ranks and accumulation.
double mean_in_order(const std::vector<std::vector<double>>& ranks, std::size_t count);

}  // namespace shardlight::cli
