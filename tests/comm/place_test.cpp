#include "shardlight/comm/place.h"

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

namespace shardlight::comm {
namespace {

using Variables = Environment::Variables;

std::string text_of(const Result<Place>& place) {
  if (!place) return "error: " + place.error().field();
  return place->launcher + "|" + place->job + "|" + std::to_string(place->rank.value()) + "/" +
         std::to_string(place->world) + "|" + std::to_string(place->rank_local.value()) + "/" +
         std::to_string(place->world_local);
}

struct Case {
  Variables variables;
  std::string place;
};

std::string missing(const std::string& variable) {
  return "error: environment variable " + variable;
}

std::vector<Case> cases() {
  const Variables launch = {
      {"SHARDLIGHT_RANK", "1"}, {"SHARDLIGHT_WORLD", "4"}, {"SHARDLIGHT_JOB", "j"}};
  const Variables torchrun = {{"RANK", "5"},        {"WORLD_SIZE", "8"},
                              {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "4"},
                              {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "123"}};
  const Variables mpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"SHARDLIGHT_JOB", "mine"}};
  const Variables slurm = {{"SLURM_PROCID", "3"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_JOB_ID", "77"},
                           {"SLURM_STEP_ID", "0"}};
  const auto without = [](Variables variables, const std::string& name) {
    variables.erase(name);
    return variables;
  };
  const auto with = [](Variables variables, const std::string& name, const std::string& value) {
    variables[name] = value;
    return variables;
  };
  Variables both = torchrun;
  both.insert(launch.begin(), launch.end());
  return {
      {{}, "||0/1|0/1"},
      {launch, "shardlight launch|j|1/4|1/4"},
      {torchrun, "torchrun|h:29500|5/8|1/4"},
      {open_mpi, "Open MPI|123|2/4|0/2"},
      {mpich, "MPICH|mine|0/2|0/2"},
      {slurm, "Slurm|77:0|3/4|1/4"},
      {both, "shardlight launch|j|1/4|1/4"},
      {with(slurm, "SHARDLIGHT_JOB", "own"), "Slurm|own|3/4|1/4"},
      // Within an allocation of Slurm, but not started by it.
      {without(slurm, "SLURM_PROCID"), "||0/1|0/1"},
      {without(without(torchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE"), "torchrun|h:29500|5/8|5/8"},
      {without(launch, "SHARDLIGHT_RANK"), missing("SHARDLIGHT_RANK")},
      {without(launch, "SHARDLIGHT_WORLD"), missing("SHARDLIGHT_WORLD")},
      {without(launch, "SHARDLIGHT_JOB"), missing("SHARDLIGHT_JOB")},
      {with(launch, "SHARDLIGHT_RANK", "4"), missing("SHARDLIGHT_RANK")},
      {with(launch, "SHARDLIGHT_RANK", "one"), missing("SHARDLIGHT_RANK")},
      {with(launch, "SHARDLIGHT_WORLD", "0"), missing("SHARDLIGHT_WORLD")},
      {without(torchrun, "WORLD_SIZE"), missing("WORLD_SIZE")},
      {without(torchrun, "RANK"), missing("RANK")},
      {without(torchrun, "MASTER_PORT"), missing("MASTER_PORT")},
      {without(torchrun, "LOCAL_RANK"), missing("LOCAL_RANK")},
      {with(torchrun, "LOCAL_RANK", "4"), missing("LOCAL_RANK")},
      {with(torchrun, "LOCAL_WORLD_SIZE", "9"), missing("LOCAL_WORLD_SIZE")},
      {without(open_mpi, "PMIX_NAMESPACE"), missing("PMIX_NAMESPACE")},
      {without(mpich, "SHARDLIGHT_JOB"), missing("SHARDLIGHT_JOB")},
      {without(slurm, "SLURM_NTASKS"), missing("SLURM_NTASKS")},
      {without(slurm, "SLURM_STEP_ID"), missing("SLURM_STEP_ID")},
  };
}

TEST(Place, IsWhatTheLauncherSays) {
  for (const Case& one : cases()) {
    std::string given;
    for (const auto& [name, value] : one.variables) given += name + "=" + value + " ";
    EXPECT_EQ(text_of(place_of(Environment(one.variables))), one.place) << given;
  }
}

}  // namespace
}  // namespace shardlight::comm
