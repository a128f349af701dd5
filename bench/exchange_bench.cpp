// The exchange between processes of this machine, beside the memory-copy limit of the same run:
// exchange_bench [RANKS [LARGEST_SHARD_BYTES [only]]] prints one JSON object a line, of medians
// over rounds: wall and CPU milliseconds a rank for an all-gather (publish and gather, two units in
// turn), a reduce-scatter (reduce, reduced, release) and copying the all-gather's bytes at once.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <vector>

#include "shardlight/comm/shm/shm_world.h"
#include "shardlight/comm/sum.h"

namespace {

using namespace shardlight;        // NOLINT(google-build-using-namespace): a program
using namespace shardlight::comm;  // NOLINT(google-build-using-namespace)

Deadline ample() { return Deadline(Seconds(60)); }

double wall_milliseconds() {
  return 1e-6 * static_cast<double>(Deadline::Clock::now().time_since_epoch().count());
}
double cpu_milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

void must(const Status& status) {
  if (status) return;
  fmt::print(stderr, "{}\n", status.error().message());
  std::_Exit(1);
}

struct Timing {
  double wall = 0, cpu = 0;  // milliseconds a call; CPU is the mean over the ranks
};

// Medians over rounds, each of them begun together. CPU by the whole run, as its clock is coarse.
Timing timed(Transport& transport, std::int64_t bytes, const std::function<void(int)>& call) {
  const int calls = static_cast<int>(std::clamp<std::int64_t>((1 << 27) / bytes, 2, 200));
  constexpr int kRounds = 7;
  int counter = 0;
  call(counter++);
  std::vector<double> walls;
  must(transport.barrier(ample()));
  const double cpu_begin = cpu_milliseconds();
  for (int round = 0; round < kRounds; ++round) {
    must(transport.barrier(ample()));
    const double begin = wall_milliseconds();
    for (int i = 0; i < calls; ++i) call(counter++);
    must(transport.barrier(ample()));
    walls.push_back((wall_milliseconds() - begin) / calls);
  }
  std::vector<double> cpu = {(cpu_milliseconds() - cpu_begin) / (calls * kRounds)};
  must(transport.all_reduce(cpu, Combine::kSum, ample()));
  std::nth_element(walls.begin(), walls.begin() + kRounds / 2, walls.end());
  return {.wall = walls[kRounds / 2], .cpu = cpu[0] / static_cast<double>(transport.world())};
}

UnitSpec even_unit(const std::string& name, std::int64_t shard_bytes, std::int64_t world) {
  UnitSpec unit{.name = name};
  unit.slices.assign(static_cast<std::size_t>(world), Count(shard_bytes / 4));
  return unit;
}

void measure(Transport& transport, std::int64_t shard_bytes) {
  const std::int64_t bytes = shard_bytes * transport.world();
  std::vector<std::byte> whole(static_cast<std::size_t>(bytes), std::byte{1});
  std::vector<std::byte> other(static_cast<std::size_t>(bytes), std::byte{2});
  const auto say = [&](const char* what, const Timing& timing) {
    if (transport.rank() != Rank(0)) return;
    fmt::print(
        "{{\"what\": \"{}\", \"ranks\": {}, \"shard_bytes\": {}, \"wall_ms\": {:.4f}, "
        "\"cpu_ms\": {:.4f}}}\n",
        what, transport.world(), shard_bytes, timing.wall, timing.cpu);
  };
  say("copy", timed(transport, bytes, [&](int) { copy_bytes(whole.data(), other.data(), bytes); }));
  say("all-gather", timed(transport, bytes, [&](int i) {
        const auto unit = static_cast<UnitId>(i % 2);
        must(transport.publish(unit, i / 2 + 1));
        must(transport.gather(unit, i / 2 + 1, whole, ample()));
      }));
  const GradientPart all{.elements = Count(bytes / 4), .data = other.data()};
  const Gradient gradient{.parts = {&all, 1}};
  say("reduce-scatter", timed(transport, bytes, [&](int i) {
        must(transport.reduce(2, i, true, gradient, ample()));
        if (!transport.reduced(2, i, ample())) std::_Exit(1);
        must(transport.release(2, i));
      }));
}

int run_rank(const std::string& job, std::int64_t rank, std::int64_t world, std::int64_t shard) {
  std::vector<UnitSpec> units;
  for (const char* name : {"a", "b", "c"}) units.push_back(even_unit(name, shard, world));
  units[0].reduces = units[1].reduces = false;
  auto transport = connect_shm({.job = job, .rank = Rank(rank), .world = world}, units, ample());
  if (!transport) {
    fmt::print(stderr, "{}\n", transport.error().message());
    return 1;
  }
  measure(**transport, shard);
  std::fflush(stdout);
  return 0;
}

// The world of processes for one size.
bool run_world(std::int64_t world, std::int64_t shard) {
  const std::string job = fmt::format("bench.{}.{}", ::getpid(), shard);
  for (std::int64_t rank = 0; rank < world; ++rank) {
    if (::fork() == 0) ::_exit(run_rank(job, rank, world, shard));
  }
  int status = 0;
  bool good = true;
  while (::wait(&status) > 0) good = good && status == 0;
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t world = argc > 1 ? std::atoll(argv[1]) : 2;
  const std::int64_t largest = argc > 2 ? std::atoll(argv[2]) : std::int64_t{64} << 20;
  const bool only = argc > 3;  // the largest size alone
  for (const std::int64_t kib : {4, 64, 1024, 16'384, 65'536}) {
    const std::int64_t shard = kib << 10;
    if (shard > largest || (only && shard != largest)) continue;
    if (!run_world(world, shard)) return 1;
  }
  return 0;
}
