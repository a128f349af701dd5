#include "shardlight/plan/ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "shardlight/plan/collective_time.h"
#include "shardlight/plan/sweep.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::plan {
namespace {

TEST(StateBytes, OfEveryPrecisionAndOptimizer) {
  using enum Optimizer;
  constexpr Precision kMixed = Precision::kMixed;
  constexpr GradientDtype kCompute = GradientDtype::kCompute;
  EXPECT_EQ(state_bytes(kMixed, kCompute, kAdam).total(), 16);
  EXPECT_EQ(state_bytes(kMixed, GradientDtype::kFp32, kAdam).total(), 18);
  EXPECT_EQ(state_bytes(kMixed, kCompute, kSgdMomentum).total(), 12);
  EXPECT_EQ(state_bytes(kMixed, kCompute, kSgd).total(), 8);
  EXPECT_EQ(state_bytes(Precision::kFp32, kCompute, kAdam).total(), 16);
  EXPECT_EQ(state_bytes(Precision::kFp32, kCompute, kSgdMomentum).total(), 12);
  EXPECT_EQ(state_bytes(Precision::kFp32, GradientDtype::kFp32, kSgd).total(), 8);
}

// The formulas of the paper, written out independently of placements.
RC_GTEST_PROP(ModelStates, EqualThePapersFormulas, ()) {
  const auto psi = *rc::gen::inRange<std::int64_t>(1, 2'000'000'000'000);
  const auto n = *rc::gen::inRange<std::int64_t>(1, 5000);
  const StateBytes bytes =
      state_bytes(*rc::gen::element(Precision::kMixed, Precision::kFp32),
                  *rc::gen::element(GradientDtype::kCompute, GradientDtype::kFp32),
                  *rc::gen::element(Optimizer::kAdam, Optimizer::kSgdMomentum, Optimizer::kSgd));
  const std::int64_t b = bytes.parameter, g = bytes.gradient, k = bytes.optimizer;
  const auto total = [&](int stage) {
    return model_states(Count(psi), bytes, *layout::placements_of_stage(stage, n), n).total();
  };
  const WideInteger wide = psi;
  RC_ASSERT(total(0) == Share(Bytes((b + g + k) * psi)));
  RC_ASSERT(total(1) == Share(wide * ((b + g) * n + k), n));
  RC_ASSERT(total(2) == Share(wide * (b * n + g + k), n));
  RC_ASSERT(total(3) == Share(wide * (b + g + k), n));
  for (int stage = 1; stage < 4; ++stage) RC_ASSERT(total(stage) <= total(stage - 1));
}

RC_GTEST_PROP(LargestModel, FitsAndOneMoreDoesNot, ()) {
  const Bytes memory(*rc::gen::inRange<std::int64_t>(1, 200'000'000'000));
  const auto n = *rc::gen::inRange<std::int64_t>(1, 3000);
  const auto placements = *layout::placements_of_stage(*rc::gen::inRange(0, 4), n);
  const StateBytes bytes =
      state_bytes(Precision::kMixed, GradientDtype::kCompute, Optimizer::kAdam);
  const Count most = largest_model(memory, bytes, placements, n);
  RC_ASSERT(model_states(most, bytes, placements, n).total() <= Share(memory));
  RC_ASSERT(model_states(most + Count(1), bytes, placements, n).total() > Share(memory));
}

Traffic traffic(int stage, std::int64_t n, std::int64_t accumulation_steps, ReduceSetting reduce) {
  const StateBytes bytes = state_bytes(Precision::kMixed, GradientDtype::kFp32, Optimizer::kAdam);
  const auto placements = *layout::placements_of_stage(stage, n);
  return traffic_of(passes_of_step(placements, bytes, accumulation_steps, reduce), Count(1000), n);
}

TEST(Traffic, TwoOrThreePassesOfWhichAPartIsOnTheWire) {
  for (const int stage : {0, 1, 2}) {
    EXPECT_EQ(traffic(stage, 4, 1, ReduceSetting::kDefault).elements_per_parameter, 2);
  }
  const Traffic three = traffic(3, 4, 1, ReduceSetting::kDefault);
  EXPECT_EQ(three.elements_per_parameter, 3);
  // A reduce-scatter of fp32 gradients and two gathers of 2-byte parameters, 3/4 of them sent.
  EXPECT_EQ(three.bytes, Share(Bytes(1000 * (4 + 2 + 2))));
  EXPECT_EQ(three.bytes_on_wire, Share(Bytes(1000 * 8 / 4 * 3)));
  EXPECT_EQ(traffic(0, 4, 1, ReduceSetting::kDefault).bytes, Share(Bytes(1000 * (4 + 4))));
  EXPECT_EQ(traffic(1, 4, 1, ReduceSetting::kDefault).bytes, Share(Bytes(1000 * (4 + 2))));
  EXPECT_EQ(traffic(3, 1, 1, ReduceSetting::kDefault).bytes_on_wire, Share());
}

TEST(Traffic, AccumulationReducesOnceOrEveryTimeAndGathersEveryTime) {
  const auto passes = [](int stage, ReduceSetting reduce) {
    return traffic(stage, 4, 5, reduce).elements_per_parameter;
  };
  EXPECT_EQ(passes(0, ReduceSetting::kDefault), 2);
  EXPECT_EQ(passes(1, ReduceSetting::kDefault), 2);
  EXPECT_EQ(passes(2, ReduceSetting::kDefault), 5 + 1);
  EXPECT_EQ(passes(3, ReduceSetting::kDefault), 5 + 2 * 5);
  EXPECT_EQ(passes(0, ReduceSetting::kEveryMicroStep), 10);
  EXPECT_EQ(passes(1, ReduceSetting::kEveryMicroStep), 5 + 1);
  EXPECT_EQ(passes(2, ReduceSetting::kOnce), 2);
  EXPECT_EQ(passes(3, ReduceSetting::kOnce), 1 + 2 * 5);
}

TEST(CollectiveTime, IsTheAlphaBetaGammaModel) {
  const Interconnect link{
      .name = "x", .bytes_per_second = 100, .latency = Seconds(2), .reduce_a_byte = Seconds(0.5)};
  // (N-1)α + (N-1)/N nβ: 3 x 2 + 3/4 x 400 / 100.
  EXPECT_DOUBLE_EQ(ring_time(Collective::kAllGather, 400, 4, 1, link).count(), 9);
  EXPECT_DOUBLE_EQ(ring_time(Collective::kReduceScatter, 400, 4, 1, link).count(), 9 + 150);
  // k messages cost (k-1)(N-1)α more.
  EXPECT_DOUBLE_EQ(ring_time(Collective::kAllGather, 400, 4, 5, link).count(), 9 + 4 * 3 * 2);
  EXPECT_DOUBLE_EQ(ring_time(Collective::kAllGather, 400, 1, 5, link).count(), 0);
  EXPECT_DOUBLE_EQ(bus_bandwidth(400, Seconds(3), 4), 100);
}

TEST(CollectiveTime, PresetsAreThePapersAndUnknownOnesAreRefused) {
  EXPECT_DOUBLE_EQ(interconnect_preset("nvswitch")->bytes_per_second, 300e9);
  EXPECT_DOUBLE_EQ(interconnect_preset("ib-edr")->bytes_per_second, 12.5e9);
  EXPECT_EQ(interconnect_preset("ib_edr").error().allowed(),
            "did you mean ib-edr? one of: nvswitch, ib-edr");
}

TEST(Sweep, VisitsEveryCellWithTheLedgersNumbers) {
  const std::vector<Count> sizes = {Count(10), Count(1'000'003)};
  const std::vector<std::int64_t> ranks = {1, 7};
  const std::vector<int> stages = {0, 3};
  const StateBytes bytes =
      state_bytes(Precision::kMixed, GradientDtype::kCompute, Optimizer::kAdam);
  std::vector<SweepCell> cells;
  ASSERT_TRUE(sweep({sizes, ranks, stages}, bytes, [&](const auto& c) { cells.push_back(c); }));
  ASSERT_EQ(cells.size(), 8U);
  EXPECT_EQ(cells[7].parameters, Count(1'000'003));
  EXPECT_EQ(cells[7].ranks, 7);
  EXPECT_EQ(cells[7].stage, 3);
  EXPECT_EQ(cells[7].states.total(), Share(WideInteger{16} * 1'000'003, 7));
  EXPECT_EQ(cells[7].traffic.elements_per_parameter, 3);
  EXPECT_EQ(cells[6].traffic.elements_per_parameter, 2);
}

TEST(Sweep, RefusesBeforeTheFirstVisit) {
  const std::vector<Count> sizes = {Count(10), Count(0)};
  const std::vector<std::int64_t> ranks = {1};
  const std::vector<int> stages = {0};
  int visits = 0;
  const auto status = sweep({sizes, ranks, stages}, {}, [&](const auto&) { ++visits; });
  EXPECT_EQ(status.error().field(), "parameters");
  EXPECT_EQ(visits, 0);
}

}  // namespace
}  // namespace shardlight::plan
