// What this program does otherwise under one launcher than under another: the names by which
// comm/place.h calls them, each once. tests/cli holds them against place_of(). Pure; any thread.
#pragma once

#include <string_view>

#include "shardlight/comm/place.h"

namespace shardlight::cli {

inline constexpr std::string_view kOwnLauncher = "shardlight launch";
inline constexpr std::string_view kOpenMpi = "Open MPI";
inline constexpr std::string_view kSlurm = "Slurm";

// Ranks may be pinned to cores: nobody else has a say in where they run.
inline bool pins_ranks(const comm::Place& place) {
  return place.launcher.empty() || place.launcher == kOwnLauncher;
}
// MPI can be started in a process of it.
inline bool starts_mpi(const comm::Place& place) {
  return place.launcher == kOpenMpi || place.launcher == kSlurm;
}
// A rank's output looks like a terminal wherever it goes.
inline bool feigns_terminals(const comm::Place& place) { return place.launcher == kOpenMpi; }

}  // namespace shardlight::cli
