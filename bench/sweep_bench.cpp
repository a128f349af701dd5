// A million plans (250 model sizes x 1,000 worlds x 4 stages) through plan::sweep, states and
// traffic. The claim it holds: under a second, on one core.
#include <benchmark/benchmark.h>

#include <vector>

#include "shardlight/plan/sweep.h"

namespace shardlight::plan {
namespace {

void BM_SweepMillionCells(benchmark::State& state) {
  std::vector<Count> sizes;
  for (std::int64_t i = 1; i <= 250; ++i) sizes.emplace_back(i * 4'000'000'007);
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 1; i <= 1'000; ++i) ranks.push_back(i);
  const std::vector<int> stages = {0, 1, 2, 3};
  const StateBytes bytes =
      state_bytes(Precision::kMixed, GradientDtype::kCompute, Optimizer::kAdam);
  std::int64_t cells = 0;
  for (auto _ : state) {
    Bytes smallest(std::numeric_limits<std::int64_t>::max());
    const auto status = sweep({sizes, ranks, stages}, bytes, [&](const SweepCell& cell) {
      smallest = std::min(smallest, cell.states.total().floor());
      benchmark::DoNotOptimize(cell.traffic.bytes_on_wire);
      ++cells;
    });
    if (!status) state.SkipWithError(status.error().what());
    benchmark::DoNotOptimize(smallest);
  }
  state.SetItemsProcessed(cells);
}
BENCHMARK(BM_SweepMillionCells)->Unit(benchmark::kMillisecond)->Repetitions(5);

}  // namespace
}  // namespace shardlight::plan

BENCHMARK_MAIN();
