#include "tests/comm/worlds.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "shardlight/comm/shm/shm_world.h"
#include "shardlight/comm/threads/threads_world.h"
#include "tests/comm/child_processes.h"

namespace shardlight::comm {
namespace {

constexpr Seconds kWorldLimit{240};

std::vector<std::string> run_processes(std::int64_t world, const std::vector<UnitSpec>& units,
                                       const RankBody& body) {
  const std::string job = new_job();
  ChildProcesses children(static_cast<int>(world), [&](int rank) -> std::string {
    auto transport = connect_shm({.job = job, .rank = Rank(rank), .world = world}, units, ample());
    if (!transport) return transport.error().message();
    return body(**transport);
  });
  std::vector<std::string> said;
  for (const ChildProcesses::End& end : children.ends(kWorldLimit)) {
    said.push_back(end.text);
    if (end.straggled) said.back() += " (hung)";
    if (end.status != 0) said.back() += " (wait status " + std::to_string(end.status) + ")";
  }
  return said;
}

// The thread sanitizer sees nothing between processes.
#if defined(__SANITIZE_THREAD__)
constexpr std::int64_t kMostRanks = 8;
constexpr std::int64_t kMostProcesses = 0;
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kMostRanks = 8;
constexpr std::int64_t kMostProcesses = 8;
#else
constexpr std::int64_t kMostRanks = 64;
constexpr std::int64_t kMostProcesses = 8;
#endif

}  // namespace

std::vector<WorldCase> worlds(const std::vector<std::int64_t>& sizes) {
  std::vector<WorldCase> worlds;
  for (const std::int64_t ranks : sizes) {
    if (ranks <= kMostRanks) worlds.push_back({WorldKind::kThreads, ranks});
    if (ranks <= kMostProcesses) worlds.push_back({WorldKind::kProcesses, ranks});
  }
  return worlds;
}

std::string name_of(const WorldCase& world) {
  return (world.kind == WorldKind::kThreads ? "threads" : "shm") + std::to_string(world.ranks);
}

std::ostream& operator<<(std::ostream& out, const WorldCase& world) {
  return out << name_of(world);
}

std::vector<std::string> run_threads(
    std::int64_t world, const std::vector<UnitSpec>& units,
    const std::function<std::string(std::unique_ptr<Transport>)>& body) {
  auto made = make_threads_world(units, world);
  if (!made) return {made.error().message()};
  std::vector<std::string> said(made->size());
  std::vector<std::thread> threads;
  ::alarm(static_cast<unsigned>(kWorldLimit.count()));
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    threads.emplace_back([&, rank] { said[rank] = body(std::move((*made)[rank])); });
  }
  for (std::thread& thread : threads) thread.join();
  ::alarm(0);
  return said;
}

std::vector<std::string> run_world(const WorldCase& world, const std::vector<UnitSpec>& units,
                                   const RankBody& body) {
  if (world.kind == WorldKind::kProcesses) return run_processes(world.ranks, units, body);
  return run_threads(world.ranks, units,
                     [&](const std::unique_ptr<Transport>& transport) { return body(*transport); });
}

std::string new_job() {
  static std::atomic<int> jobs{0};
  return "test." + std::to_string(::getpid()) + "." + std::to_string(jobs++);
}

Deadline ample() { return Deadline(Seconds(120)); }

}  // namespace shardlight::comm
