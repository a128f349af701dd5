// What is foreseen of uses: by itself, and as an engine prefetches by it.
#include "shardlight/engine/use_trace.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>

#include "batches.h"
#include "training.h"

namespace shardlight::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Uses = std::vector<layout::UnitIndex>;

// How many of the uses were not foreseen.
std::int64_t misses(UseTrace& trace, const Uses& uses) {
  const std::int64_t before = trace.unforeseen();
  for (const layout::UnitIndex unit : uses) trace.use(unit);
  trace.end_micro_step();
  return trace.unforeseen() - before;
}

TEST(UseTrace, ForeseesTheLastMicroStep) {
  UseTrace trace(4);
  EXPECT_THAT(trace.ahead(), IsEmpty());
  EXPECT_EQ(misses(trace, {0, 1, 2, 1, 0}), 0);
  trace.use(0);
  trace.use(1);
  EXPECT_THAT(trace.ahead(), ElementsAre(2, 1, 0));
  EXPECT_EQ(trace.distance(0), 2U);
  EXPECT_EQ(trace.distance(3), std::nullopt);
}

// Of two that take turns, both are foreseen once each has been gone, from where they part; in the
// round after that altogether.
TEST(UseTrace, ForeseesWaysThatTakeTurns) {
  UseTrace trace(6);
  const Uses a = {0, 1, 2, 5}, b = {0, 3, 4, 5};
  EXPECT_EQ(misses(trace, a), 0);
  EXPECT_EQ(misses(trace, b), 3);  // and 5 comes sooner than foreseen
  EXPECT_EQ(misses(trace, a), 1);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(misses(trace, b), 0) << turn;
    EXPECT_EQ(misses(trace, a), 0) << turn;
  }
}

TEST(UseTrace, ForgetsTheOldestOfManyWays) {
  UseTrace trace(UseTrace::kWays + 3);
  const auto way = [](std::size_t i) { return Uses{0, i + 1, 0}; };
  for (std::size_t i = 0; i <= UseTrace::kWays; ++i) misses(trace, way(i));
  // All but the first one are known; where nothing says which comes, one use shows it.
  for (std::size_t i = 1; i <= UseTrace::kWays; ++i) EXPECT_LE(misses(trace, way(i)), 1) << i;
  EXPECT_EQ(misses(trace, way(0)), 2);
}

// Even steps go through the second layer, odd ones through the third.
TEST(UseTrace, LetsAnEnginePrefetchBothWaysOfAModel) {
  Training run;
  run.world = 2;
  run.options.stage = 3;
  run.options.unit_bytes = Bytes(0);
  run.options.prefetch_bytes = Bytes(1 << 20);
  run.options.gathered_bytes = Bytes(1 << 20);
  on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
    Engine engine = make_engine(run, ranks, model);
    const auto layer = [&](std::size_t i, const at::Tensor& x) {
      return at::linear(x, model.parameters.at(2 * i).second,
                        model.parameters.at(2 * i + 1).second);
    };
    const auto step = [&](std::int64_t number) {
      const at::Tensor x = at::tanh(layer(0, normal_batch({7, 13}, number, ranks.rank.value())));
      engine.backward(layer(number % 2 == 0 ? 1 : 2, x).square().mean());
      engine.step();
      return engine.traffic();
    };
    for (std::int64_t number = 0; number < 4; ++number) step(number);
    const TrafficReport before = engine.traffic();
    for (std::int64_t number = 4; number < 10; ++number) step(number);
    const TrafficReport after = engine.traffic();
    EXPECT_EQ(after.unforeseen, before.unforeseen);
    EXPECT_EQ(after.gathers - before.gathers, after.gathers_ahead - before.gathers_ahead);
  });
}

}  // namespace
}  // namespace shardlight::engine
