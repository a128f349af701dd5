#include "shardlight/comm/place.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace shardlight::comm {
namespace {

constexpr const char* kJob = "SHARDLIGHT_JOB";

// How a launcher calls it; "" where it does not say.
struct LauncherVariables {
  std::string name;
  std::string rank, world;
  std::string rank_local, world_local;
  std::vector<std::string> job = {};  // all of them, joined
  // Its other variables may stand in an environment that it did not start a rank in.
  bool by_rank_alone = false;
};

const std::vector<LauncherVariables>& launchers() {
  static const std::vector<LauncherVariables> kLaunchers = {
      {.name = "shardlight launch",
       .rank = "SHARDLIGHT_RANK",
       .world = "SHARDLIGHT_WORLD",
       .rank_local = "",
       .world_local = "",
       .job = {kJob}},
      {.name = "torchrun",
       .rank = "RANK",
       .world = "WORLD_SIZE",
       .rank_local = "LOCAL_RANK",
       .world_local = "LOCAL_WORLD_SIZE",
       .job = {"MASTER_ADDR", "MASTER_PORT"}},
      {.name = "Open MPI",
       .rank = "OMPI_COMM_WORLD_RANK",
       .world = "OMPI_COMM_WORLD_SIZE",
       .rank_local = "OMPI_COMM_WORLD_LOCAL_RANK",
       .world_local = "OMPI_COMM_WORLD_LOCAL_SIZE",
       .job = {"PMIX_NAMESPACE"}},
      {.name = "MPICH",
       .rank = "PMI_RANK",
       .world = "PMI_SIZE",
       .rank_local = "MPI_LOCALRANKID",
       .world_local = "MPI_LOCALNRANKS"},
      {.name = "Slurm",
       .rank = "SLURM_PROCID",
       .world = "SLURM_NTASKS",
       .rank_local = "SLURM_LOCALID",
       .world_local = "",
       .job = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
       .by_rank_alone = true},
  };
  return kLaunchers;
}

constexpr std::int64_t kMaxWorld = std::numeric_limits<std::int32_t>::max();

Result<std::int64_t> needed(const Environment& environment, const std::string& variable,
                            std::int64_t min, std::int64_t max) {
  SHARDLIGHT_TRY(const auto value, environment.integer(variable, min, max));
  if (value) return *value;
  return user_error("environment variable " + variable, "",
                    "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
}

Status read_local(const Environment& environment, const LauncherVariables& launcher, Place& place) {
  if (!launcher.world_local.empty()) {
    SHARDLIGHT_TRY(const auto world, environment.integer(launcher.world_local, 1, place.world));
    if (world) place.world_local = *world;
  }
  if (launcher.rank_local.empty()) return {};
  const std::int64_t last = place.world_local - 1;
  SHARDLIGHT_TRY(const auto rank, environment.integer(launcher.rank_local, 0, last));
  if (rank) place.rank_local = Rank(*rank);
  if (place.rank_local.value() <= last) return {};
  SHARDLIGHT_TRY_STATUS(needed(environment, launcher.rank_local, 0, last));
  return {};
}

// SHARDLIGHT_JOB goes first, and is needed where the launcher gives its jobs no names.
Result<std::string> job_of(const Environment& environment, const LauncherVariables& launcher) {
  if (const auto job = environment.text(kJob)) return *job;
  const auto missing = [&](const std::string& variable) {
    return user_error("environment variable " + variable, "",
                      "a text that all ranks of the job have, and no other job");
  };
  if (launcher.job.empty()) return missing(kJob);
  std::string job;
  for (const std::string& variable : launcher.job) {
    const auto part = environment.text(variable);
    if (!part) return missing(variable);
    job += (job.empty() ? "" : ":") + *part;
  }
  return job;
}

Result<Place> read(const Environment& environment, const LauncherVariables& launcher) {
  Place place{.launcher = launcher.name};
  SHARDLIGHT_TRY(place.world, needed(environment, launcher.world, 1, kMaxWorld));
  SHARDLIGHT_TRY(const std::int64_t rank, needed(environment, launcher.rank, 0, place.world - 1));
  place.rank = place.rank_local = Rank(rank);
  place.world_local = place.world;
  SHARDLIGHT_TRY_STATUS(read_local(environment, launcher, place));
  SHARDLIGHT_TRY(place.job, job_of(environment, launcher));
  return place;
}

}  // namespace

Result<Place> place_of(const Environment& environment) {
  for (const LauncherVariables& launcher : launchers()) {
    // One of the two without the other is a mistake of whoever set them, and read() names it.
    if (environment.text(launcher.rank) ||
        (!launcher.by_rank_alone && environment.text(launcher.world))) {
      return read(environment, launcher);
    }
  }
  return Place{};
}

}  // namespace shardlight::comm
