#include "processes.h"

#include <unistd.h>

#include <fstream>

#include "shardlight/comm/shm/shm_world.h"

namespace shardlight::engine {
namespace {

// Of the parent, in the children too.
const pid_t kParent = ::getpid();

}  // namespace

Ranks processes(const std::string& job, std::int64_t rank, std::int64_t world) {
  Ranks ranks{.rank = Rank(rank), .world = world, .connect = {}};
  ranks.connect = [=](const std::vector<comm::UnitSpec>& units) {
    return comm::connect_shm({.job = job, .rank = Rank(rank), .world = world}, units,
                             comm::Deadline(Seconds(30)));
  };
  return ranks;
}

std::string job_name(const std::string& what) {
  return "engine-test-" + std::to_string(kParent) + "-" + what;
}

int threads_of_process() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int threads = 0;
  while (status >> word && word != "Threads:") {
  }
  status >> threads;
  return threads;
}

}  // namespace shardlight::engine
