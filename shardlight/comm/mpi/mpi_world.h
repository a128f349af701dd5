// Ranks as processes of many hosts, one each, started by mpirun: the exchange over Open MPI's C
// interface. One communication thread a process makes all calls of MPI and answers the other ranks
// while the process computes, so nobody has to take part in a gather but the slices' owners, and
// they need not be in a call. docs/exchange.md says how to start such a job.
//
// Connecting is done by one thread a process at a time; the transport is as in transport.h.
#pragma once

#include <memory>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

struct MpiOptions {
  // How often each rank tells each other one what it is doing, and the silence after which a rank
  // counts as lost; at least 4 times as long.
  Seconds heartbeat{0.1};
  Seconds silence{10};
  // What contributions that come before their turn may take of this rank's memory.
  Bytes reserve{std::int64_t{64} << 20};
  // Whether this rank reads shards and gradients of the ranks of its host from mappings of their
  // memory. If not, or where one cannot be had (a warning in the log says why), they come by
  // messages.
  bool maps_host = true;
};

// Meets the other ranks of the job. All ranks connect equally often and in the same order, with the
// same units; a difference, or a rank that does not come, is an error of every rank, by name.
// Errors: a user error of the field `transport` where Shardlight was built without MPI, or of
// `silence`, or as check_units; else environment errors of the operation connect.
Result<std::unique_ptr<Transport>> connect_mpi(std::vector<UnitSpec> units, Deadline deadline,
                                               MpiOptions options = {});

}  // namespace shardlight::comm
