// The worlds of the conformance suite (worlds.h) under mpirun: SHARDLIGHT_TEST_MPI_BY=messages
// keeps ranks of one host from mapping each other's memory, so that their slices come by messages,
// as those of other hosts do. Any thread.
#pragma once

#include "tests/comm/worlds.h"

namespace shardlight::comm {

// What MpiOptions::maps_host is in this run.
bool maps_host();

}  // namespace shardlight::comm
