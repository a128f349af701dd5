// How the processes of a job find each other: rank 0 listens on an abstract UNIX socket named from
// the user and the job, the others connect, each says who it is, and rank 0 answers all of them
// together: with the shared memory and a pidfd of each rank, or with what is wrong. The sockets are
// closed then. Internal to shm/; one thread.
#pragma once

#include <vector>

#include "shardlight/comm/shared/segment.h"
#include "shardlight/comm/shared/shared_layout.h"
#include "shardlight/comm/shm/shm_world.h"

namespace shardlight::comm {

struct Meeting {
  Descriptor memory;                  // a memfd of the layout's size, zeroed
  std::vector<Descriptor> processes;  // pidfds, by rank
};

Result<Meeting> host_meeting(const ShmOptions& options, const SharedLayout& layout,
                             const Deadline& deadline);
Result<Meeting> join_meeting(const ShmOptions& options, const SharedLayout& layout,
                             const Deadline& deadline);

}  // namespace shardlight::comm
