// Ranks of the engine as forked processes over shared memory. For tests that fork while they have
// one thread (child_processes.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardlight/engine/ranks.h"

namespace shardlight::engine {

// One of `world` processes that meet under the name.
Ranks processes(const std::string& job, std::int64_t rank, std::int64_t world);

// A name that no other run of this program has; the same in its children.
std::string job_name(const std::string& what);

// Forks the ranks; by rank, what each says, "hung" or "died". What it throws is said.
std::vector<std::string> run_processes(std::int64_t world,
                                       const std::function<std::string(std::int64_t)>& body);

// Of this process: more than one, and no fork is safe any more.
int threads_of_process();

}  // namespace shardlight::engine
