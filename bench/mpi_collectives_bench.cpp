// MPI's own collectives, to be set beside exchange_bench:
// mpirun -n RANKS mpi_collectives_bench SHARD_BYTES prints one JSON object a line, as that one
// does, of MPI_Allgather and MPI_Reduce_scatter_block of fp32.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

namespace {

double wall_milliseconds() { return 1e3 * MPI_Wtime(); }
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

struct World {
  int rank = 0, ranks = 1;
};

// The same rounds as rank_timing.h.
void time_calls(const World& world, const char* what, std::int64_t shard_bytes,
                const std::function<void()>& call) {
  constexpr int kRounds = 7;
  const int calls =
      static_cast<int>(std::clamp<std::int64_t>((1 << 27) / (shard_bytes * world.ranks), 2, 200));
  call();
  std::vector<double> rounds, each;
  MPI_Barrier(MPI_COMM_WORLD);
  const double cpu_begin = cpu_milliseconds();
  for (int round = 0; round < kRounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = wall_milliseconds();
    double last = begin;
    for (int i = 0; i < calls; ++i) {
      call();
      const double now = wall_milliseconds();
      each.push_back(now - last);
      last = now;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    rounds.push_back((wall_milliseconds() - begin) / calls);
  }
  const double cpu = (cpu_milliseconds() - cpu_begin) / (calls * kRounds);
  double cpu_sum = 0;
  MPI_Allreduce(&cpu, &cpu_sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (world.rank != 0) return;
  std::printf(
      "{\"what\": \"%s\", \"ranks\": %d, \"shard_bytes\": %lld, \"wall_ms\": %.4f, \"p50_ms\": "
      "%.4f, \"cpu_ms\": %.4f}\n",
      what, world.ranks, static_cast<long long>(shard_bytes), median(rounds), median(each),
      cpu_sum / world.ranks);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
  const std::int64_t shard_bytes = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 4096;
  const int elements = static_cast<int>(shard_bytes / 4);
  std::vector<float> shard(static_cast<std::size_t>(elements), 1.0F);
  std::vector<float> whole(shard.size() * static_cast<std::size_t>(world.ranks), 2.0F);
  time_calls(world, "all-gather", shard_bytes, [&] {
    MPI_Allgather(shard.data(), elements, MPI_FLOAT, whole.data(), elements, MPI_FLOAT,
                  MPI_COMM_WORLD);
  });
  time_calls(world, "reduce-scatter", shard_bytes, [&] {
    MPI_Reduce_scatter_block(whole.data(), shard.data(), elements, MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
  });
  MPI_Finalize();
  return 0;
}
