#include "bench/rank_timing.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "shardlight/comm/mpi/mpi_world.h"
#include "shardlight/comm/place.h"
#include "shardlight/comm/shm/shm_world.h"

namespace shardlight::comm {
namespace {

double wall_milliseconds() {
  return 1e-6 * static_cast<double>(Deadline::Clock::now().time_since_epoch().count());
}
double cpu_milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void be_rank(Result<std::unique_ptr<Transport>> transport,
             const std::function<void(Transport&)>& body) {
  if (!transport) must(Failure(transport.error()));
  body(**transport);
}

}  // namespace

Deadline ample() { return Deadline(Seconds(60)); }

void must(const Status& status) {
  if (status) return;
  fmt::print(stderr, "{}\n", status.error().message());
  std::_Exit(1);
}

Timing timed(Transport& transport, std::int64_t bytes, const std::function<void(int)>& call) {
  const int calls = static_cast<int>(std::clamp<std::int64_t>((1 << 27) / bytes, 2, 200));
  constexpr int kRounds = 7;
  int counter = 0;
  call(counter++);
  std::vector<double> rounds, each;
  must(transport.barrier(ample()));
  // CPU by the whole run, as its clock is coarse.
  const double cpu_begin = cpu_milliseconds();
  for (int round = 0; round < kRounds; ++round) {
    must(transport.barrier(ample()));
    const double begin = wall_milliseconds();
    double last = begin;
    for (int i = 0; i < calls; ++i) {
      call(counter++);
      const double now = wall_milliseconds();
      each.push_back(now - last);
      last = now;
    }
    must(transport.barrier(ample()));
    rounds.push_back((wall_milliseconds() - begin) / calls);
  }
  std::vector<double> cpu = {(cpu_milliseconds() - cpu_begin) / (calls * kRounds)};
  must(transport.all_reduce(cpu, Combine::kSum, ample()));
  return {.wall = median(rounds),
          .p50 = median(each),
          .cpu = cpu[0] / static_cast<double>(transport.world())};
}

void say(const Transport& transport, const std::string& what, const std::string& size,
         std::int64_t bytes, const Timing& timing) {
  if (transport.rank() != Rank(0)) return;
  fmt::print(
      "{{\"what\": \"{}\", \"ranks\": {}, \"{}\": {}, \"wall_ms\": {:.4f}, \"p50_ms\": {:.4f}, "
      "\"cpu_ms\": {:.4f}}}\n",
      what, transport.world(), size, bytes, timing.wall, timing.p50, timing.cpu);
  std::fflush(stdout);
}

bool run_ranks(std::int64_t world, const std::vector<UnitSpec>& units,
               const std::function<void(Transport&)>& body) {
  const auto place = place_of(Environment::of_process());
  if (place && place->launcher == "Open MPI") {
    be_rank(connect_mpi(units, ample()), body);
    return true;
  }
  static int jobs = 0;
  const std::string job = fmt::format("bench.{}.{}", ::getpid(), jobs++);
  for (std::int64_t rank = 0; rank < world; ++rank) {
    if (::fork() != 0) continue;
    be_rank(connect_shm({.job = job, .rank = Rank(rank), .world = world}, units, ample()), body);
    std::_Exit(0);
  }
  int status = 0;
  bool good = true;
  while (::wait(&status) > 0) good = good && status == 0;
  return good;
}

UnitSpec even_unit(const std::string& name, std::int64_t bytes, std::int64_t world) {
  UnitSpec unit{.name = name, .reduces = false};
  const std::int64_t elements = bytes / 4;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    unit.slices.emplace_back(elements / world + (rank < elements % world ? 1 : 0));
  }
  return unit;
}

}  // namespace shardlight::comm
