#include "processes.h"

#include <unistd.h>

#include <exception>
#include <fstream>
#include <memory>

#include "shardlight/comm/shm/shm_world.h"
#include "tests/comm/child_processes.h"

namespace shardlight::engine {
namespace {

// Of the parent, in the children too.
const pid_t kParent = ::getpid();

}  // namespace

Ranks processes(const std::string& job, std::int64_t rank, std::int64_t world) {
  Ranks ranks{.rank = Rank(rank), .world = world, .connect = {}};
  const auto calls = std::make_shared<int>(0);
  ranks.connect = [=](const std::vector<comm::UnitSpec>& units) {
    const std::string meeting = job + "-" + std::to_string((*calls)++);
    return comm::connect_shm({.job = meeting, .rank = Rank(rank), .world = world}, units,
                             comm::Deadline(Seconds(30)));
  };
  return ranks;
}

std::vector<std::string> run_processes(std::int64_t world,
                                       const std::function<std::string(std::int64_t)>& body) {
  comm::ChildProcesses children(static_cast<int>(world), [&](int rank) -> std::string {
    try {
      return body(rank);
    } catch (const std::exception& error) {
      return error.what();
    }
  });
  std::vector<std::string> said;
  for (const auto& end : children.ends(Seconds(60))) {
    said.push_back(end.straggled ? "hung" : end.text);
    if (end.text.empty() && end.status != 0) said.back() = "died";
  }
  return said;
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
