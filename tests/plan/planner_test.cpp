#include "shardlight/plan/planner.h"

#include <gtest/gtest.h>

#include "shardlight/plan/builtin_models.h"
#include "shardlight/plan/display.h"

namespace shardlight::plan {
namespace {

// Embedding of 1000 x 8, two blocks of 100 x 8 and 8 elements: sizes one can follow by hand.
Model small_model() {
  layout::ParameterTable table;
  EXPECT_TRUE(table.add("wte", {1000, 8}));
  for (const char* block : {"h.0", "h.1"}) {
    EXPECT_TRUE(table.add(std::string(block) + ".w", {100, 8}));
    EXPECT_TRUE(table.add(std::string(block) + ".b", {8}));
  }
  const Count parameters = table.elements();
  return {.name = "small",
          .parameters = parameters,
          .table = std::move(table),
          .shape = TransformerShape{
              .hidden = 8, .layers = 2, .heads = 2, .vocabulary = 1000, .positions = 64}};
}

PlanRequest small_request() {
  return {.model = small_model(), .ranks = 3, .unit_bytes = Bytes(1000)};
}

TEST(Activations, TheZeroPapersRuleOnGpt2) {
  const TransformerShape gpt2{.hidden = 1600, .layers = 48, .heads = 25};
  ActivationRequest request{.micro_batch = 32, .sequence = 1024, .rule = ActivationRule::kZero};
  EXPECT_EQ(show_gb(Share(activations(gpt2, request)->kept())), "60.4");
  request.checkpointing = Checkpointing::kFull;
  EXPECT_EQ(show_gb(Share(activations(gpt2, request)->kept())), "8.72");
  request.checkpointing = Checkpointing::kSelective;
  EXPECT_EQ(activations(gpt2, request).error().field(), "checkpointing");
}

TEST(Activations, KorthikantisFormulaBySymbols) {
  const TransformerShape shape{.hidden = 64, .layers = 3, .heads = 4, .vocabulary = 500};
  const double s = 16, b = 2, h = 64, a = 4, v = 500;
  const double sbh = s * b * h;
  ActivationRequest request{.micro_batch = 2, .sequence = 16};
  const auto value = [](double x) { return Bytes(static_cast<std::int64_t>(x)); };
  EXPECT_EQ(activations(shape, request)->layers, value(3 * sbh * (34 + 5 * a * s / h)));
  EXPECT_EQ(activations(shape, request)->outside, value(4 * sbh * (1 + v / h)));
  request.checkpointing = Checkpointing::kSelective;
  EXPECT_EQ(activations(shape, request)->layers, value(3 * 34 * sbh));
  EXPECT_EQ(activations(shape, request)->recomputed, value(5 * a * s * s * b));
  request.checkpointing = Checkpointing::kFull;
  EXPECT_EQ(activations(shape, request)->layers, value(3 * 2 * sbh));
  EXPECT_EQ(activations(shape, request)->recomputed, value(sbh * (34 + 5 * a * s / h)));
  EXPECT_EQ(activations(shape, request)->logit_gradient, value(4 * s * b * v));
}

TEST(Activations, TheTwoRulesDifferAsTheLedgerSays) {
  const TransformerShape gpt2{.hidden = 1600, .layers = 48, .heads = 25};
  ActivationRequest request{.micro_batch = 32, .sequence = 1024};
  const double korthikanti = static_cast<double>(activations(gpt2, request)->layers.value());
  request.rule = ActivationRule::kZero;
  const double zero = static_cast<double>(activations(gpt2, request)->layers.value());
  EXPECT_NEAR(korthikanti / zero, 4.75, 0.005);
}

TEST(Activations, RefusesWhatTheModelCannotTake) {
  const TransformerShape shape{.hidden = 8, .layers = 1, .heads = 1, .positions = 64};
  EXPECT_EQ(activations(shape, {.sequence = 65}).error().field(), "sequence");
  EXPECT_TRUE(activations(shape, {.sequence = 64}));
  EXPECT_EQ(activations(shape, {.micro_batch = 0}).error().field(), "micro_batch");
  const TransformerShape huge{.hidden = 1 << 20, .layers = 1 << 20, .heads = 1};
  EXPECT_FALSE(activations(huge, {.micro_batch = 1 << 20, .sequence = 1 << 20}));
}

TEST(Planner, ResidualsByHand) {
  const Plan plan = *make_plan(small_request());
  // Units: wte 8000; h.0 832 + 64; h.1 832 + 64 (800 and 8 elements, padded to 64).
  ASSERT_EQ(plan.units->size(), 3U);
  EXPECT_EQ(plan.request.model.parameters, Count(8000 + 2 * 808));
  const Count padded(8000 + 2 * (832 + 64));
  const Count slice(2688 + 320 + 320);  // a third of each, in whole blocks
  const Residuals& zero = plan.stages[0].residuals;
  EXPECT_EQ(zero.padding, Share(Bytes(16 * (padded.value() - 9616))));
  EXPECT_EQ(zero.gathered_units, Bytes(0));
  EXPECT_EQ(zero.buckets, Bytes(0));
  const Residuals& three = plan.stages[3].residuals;
  EXPECT_EQ(three.padding, Share(Bytes(16 * slice.value())) - Share(16 * 9616, 3));
  EXPECT_EQ(three.gathered_units, Bytes(2 * (8000 + 896)));  // wte and its neighbour
  EXPECT_EQ(three.buckets, Bytes(2 * (8000 + 896)));
  EXPECT_EQ(plan.stages[2].residuals.gathered_units, Bytes(0));
  EXPECT_EQ(plan.stages[2].residuals.buckets, Bytes(2 * (8000 + 896)));
}

TEST(Planner, ThePeakIsTheSumOfItsLines) {
  PlanRequest request = small_request();
  request.batch = Batch{.micro_batch = 2, .sequence = 16};
  const Plan plan = *make_plan(request);
  for (const StagePlan& stage : plan.stages) {
    const Bytes beside = *stage.residuals.gathered_units + *stage.residuals.buckets +
                         stage.residuals.unreduced_gradients + plan.activations->kept() +
                         *plan.activations->temporary();
    EXPECT_EQ(stage.peak, stage.states.total() + *stage.residuals.padding + Share(beside));
    EXPECT_TRUE(stage.peak.whole());  // what a rank holds is whole bytes
  }
}

TEST(Planner, ReduceOnceKeepsFullGradientsWhereTheyAreSharded) {
  PlanRequest request = small_request();
  request.accumulation_steps = 4;
  request.reduce = ReduceSetting::kOnce;
  const Plan plan = *make_plan(request);
  EXPECT_EQ(plan.stages[1].residuals.unreduced_gradients, Bytes(0));
  EXPECT_EQ(plan.stages[2].residuals.unreduced_gradients, Bytes(2 * 9616));
  request.reduce = ReduceSetting::kDefault;
  EXPECT_EQ(make_plan(request)->stages[2].residuals.unreduced_gradients, Bytes(0));
}

TEST(Planner, ACountLeavesUnknownWhatItCannotKnow) {
  const Plan plan = *make_plan({.model = {.parameters = Count(1000)}, .ranks = 4});
  EXPECT_FALSE(plan.units);
  EXPECT_EQ(plan.stages[0].residuals.padding, std::nullopt);
  EXPECT_EQ(plan.stages[3].residuals.gathered_units, std::nullopt);
  EXPECT_EQ(plan.stages[2].residuals.gathered_units, Bytes(0));
  EXPECT_EQ(plan.stages[3].peak, plan.stages[3].states.total());
}

TEST(Planner, MoreUnitsCostMoreMessagesAndNoMoreBytes) {
  PlanRequest request = small_request();
  request.interconnect = Interconnect{.name = "x", .bytes_per_second = 1e9};
  const Plan three_units = *make_plan(request);
  request.unit_bytes = Bytes(1 << 20);
  const Plan one_unit = *make_plan(request);
  ASSERT_EQ(one_unit.units->size(), 1U);
  EXPECT_EQ(one_unit.stages[3].traffic.bytes, three_units.stages[3].traffic.bytes);
  // 3 passes, 2 more messages each, 2 hops.
  EXPECT_NEAR((*three_units.stages[3].traffic_time - *one_unit.stages[3].traffic_time).count(),
              3 * 2 * 2 * kAssumedLatency.count(), 1e-12);
}

TEST(Planner, ComputeTimeCountsRecomputedForwards) {
  PlanRequest request = small_request();
  request.batch = Batch{.micro_batch = 2, .sequence = 16};
  request.accumulation_steps = 5;
  request.compute = Compute{.peak_flops = 1e6, .efficiency = 0.5};
  const double forward = 2.0 * 9616 * 2 * 16 * 5 / 5e5;
  EXPECT_DOUBLE_EQ(make_plan(request)->compute_time->count(), 3 * forward);
  request.checkpointing = Checkpointing::kFull;
  EXPECT_DOUBLE_EQ(make_plan(request)->compute_time->count(), 4 * forward);
}

TEST(Planner, AMixtureOfExpertsComputesWithSomeOfItsParameters) {
  const Model mixtral = *builtin_model("mixtral-8x7b");
  // 12.9B active: the figure of Mistral AI's announcement and paper (2024).
  EXPECT_EQ(show_count(active_parameters(mixtral)), "12.9B");
  const Model dense = *builtin_model("llama-7b");
  EXPECT_EQ(active_parameters(dense), dense.parameters);
}

TEST(Planner, HoldsAtTheLargestEverything) {
  const Model huge{.parameters = Count(kMaxParameters)};
  for (const std::int64_t ranks : {std::int64_t{1}, std::int64_t{3}, layout::kMaxRanks}) {
    const Plan plan = *make_plan({.model = huge, .ranks = ranks, .accumulation_steps = 4});
    EXPECT_EQ(plan.stages[3].states.total(), Share(WideInteger{16} * kMaxParameters, ranks));
    EXPECT_EQ(plan.stages[0].traffic.bytes, Share(Bytes(kMaxParameters * 4)));
  }
  const auto too_much = make_plan({.model = huge, .ranks = 4, .accumulation_steps = 1'000'000});
  EXPECT_EQ(too_much.error().field(), "accumulation_steps");
  // Padding is arithmetic, not a table of a million slices.
  PlanRequest request{.model = *builtin_model("llama-3-70b"), .ranks = layout::kMaxRanks};
  EXPECT_TRUE(make_plan(request)->stages[3].residuals.padding.has_value());
}

TEST(Planner, WithOneRankAllStagesAreTheSameRow) {
  PlanRequest request = small_request();
  request.ranks = 1;
  const Plan plan = *make_plan(request);
  for (const StagePlan& stage : plan.stages) {
    EXPECT_EQ(stage.states.total(), plan.stages[0].states.total());
    EXPECT_EQ(stage.peak, plan.stages[0].peak);
    EXPECT_EQ(stage.traffic.elements_per_parameter, 2);
    EXPECT_EQ(stage.traffic.bytes_on_wire, Share());
  }
}

TEST(Planner, WhatARuleDoesNotKnowIsNotZero) {
  PlanRequest request = small_request();
  request.batch = Batch{.micro_batch = 2, .sequence = 16};
  EXPECT_TRUE(make_plan(request)->peaks_complete());
  request.activation_rule = ActivationRule::kZero;
  EXPECT_EQ(make_plan(request)->activations->temporary(), std::nullopt);
  EXPECT_FALSE(make_plan(request)->peaks_complete());
}

TEST(Planner, Gpt2OfThePaper) {
  // 24 GB of model states, 3 GB of them the 16-bit weights (the paper, section 3.1).
  const Plan plan = *make_plan({.model = {.parameters = Count(1'500'000'000)}});
  EXPECT_EQ(show_gb(plan.stages[0].states.total()), "24");
  EXPECT_EQ(show_gb(plan.stages[0].states.parameters), "3");
}

TEST(Planner, RefusesByField) {
  const auto field_of = [](PlanRequest request) {
    return make_plan(std::move(request)).error().field();
  };
  const Model count{.parameters = Count(1000)};
  EXPECT_EQ(field_of({.model = {.parameters = Count(0)}}), "parameters");
  EXPECT_EQ(field_of({.model = {.parameters = Count(kMaxParameters + 1)}}), "parameters");
  EXPECT_EQ(field_of({.model = count, .ranks = 0}), "ranks");
  EXPECT_EQ(field_of({.model = count, .accumulation_steps = 0}), "accumulation_steps");
  EXPECT_EQ(field_of({.model = count, .batch = Batch{}}), "micro_batch");
  EXPECT_EQ(field_of({.model = count, .device_memory = Bytes(0)}), "device_memory");
  EXPECT_EQ(field_of({.model = count, .compute = Compute{.peak_flops = 1}}), "peak_flops");
  EXPECT_EQ(field_of({.model = small_model(), .unit_bytes = Bytes(-1)}), "unit_bytes");
  EXPECT_EQ(field_of({.model = count, .unit_bytes = Bytes(1)}), "unit_bytes");
  EXPECT_EQ(field_of({.model = count, .interconnect = Interconnect{}}), "bytes_per_second");
  EXPECT_EQ(field_of({.model = small_model(), .batch = Batch{.sequence = 65}}), "sequence");
  EXPECT_EQ(field_of({.model = small_model(), .batch = Batch{}, .compute = Compute{1, 1.5}}),
            "efficiency");
}

}  // namespace
}  // namespace shardlight::plan
