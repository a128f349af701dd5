// What ranks move, counted where bytes move, is what was planned, and, where nothing is kept and
// all divides evenly, the ledger's 2Ψ and 3Ψ elements times (N-1)/N.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "plain_twin.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/layout/unit.h"
#include "shardlight/plan/precision.h"

namespace shardlight::engine {
namespace {

using plan::ReduceSetting;

std::int64_t elements_of(const Training& run) {
  std::int64_t elements = 0;
  for (const auto& [name, parameter] : unique_parameters(model_of_rank(run, 0))) {
    elements += parameter.numel();
  }
  return elements;
}

// What each rank moves in one step after the first: from forward to forward.
std::vector<comm::TrafficCount> moved_in_a_step(const Training& run) {
  std::vector<comm::TrafficCount> moved(static_cast<std::size_t>(run.world));
  on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
    Engine engine = make_engine(run, ranks, model);
    accumulate(engine, run, model, 0);
    engine.step();
    const comm::TrafficCount before = engine.traffic().moved;
    accumulate(engine, run, model, 1);
    engine.step();
    const TrafficReport after = engine.traffic();
    if (!run.options.retain) {
      const auto stage = static_cast<std::size_t>(run.options.stage);
      const comm::TrafficCount of_stage = engine.plan().stages.at(stage).traffic;
      EXPECT_EQ(of_stage.gathered, after.moved.gathered - before.gathered);
      EXPECT_EQ(of_stage.reduced, after.moved.reduced - before.reduced);
    }
    EXPECT_EQ(after.moved.gathered.value(), after.planned.gathered.value());
    EXPECT_EQ(after.moved.reduced.value(), after.planned.reduced.value());
    moved[static_cast<std::size_t>(ranks.rank.value())] = {
        .gathered = after.moved.gathered - before.gathered,
        .reduced = after.moved.reduced - before.reduced};
    engine.close();
  });
  return moved;
}

Training even_model(std::int64_t world, int stage) {
  Training run;
  run.model = "even";
  run.world = world;
  run.options.stage = stage;
  run.options.retain = false;
  run.options.unit_bytes = Bytes(0);
  run.options.deadline = Seconds(60);
  return run;
}

// A rank sends, or fetches, all but its own part; in bytes.
std::int64_t pass(const Training& run) {
  return elements_of(run) / run.world * (run.world - 1) * 4;
}

void expect_the_ledgers(int first_stage, int last_stage) {
  for (const std::int64_t world : {1, 2, 3, 4}) {
    for (int stage = first_stage; stage <= last_stage; ++stage) {
      SCOPED_TRACE(testing::Message() << world << " ranks, stage " << stage);
      const Training run = even_model(world, stage);
      const auto placements = layout::placements_of_stage(stage, world);
      const auto passes = plan::passes_of_step(
          *placements,
          plan::state_bytes(plan::Precision::kFp32, plan::GradientDtype::kCompute,
                            plan::Optimizer::kAdam),
          1, ReduceSetting::kDefault);
      const plan::Share planned =
          plan::traffic_of(passes, Count(elements_of(run)), world).bytes_on_wire;
      const std::int64_t gathers = stage == 3 ? 2 : 1;
      for (const comm::TrafficCount& moved : moved_in_a_step(run)) {
        EXPECT_EQ(moved.reduced.value(), pass(run));
        EXPECT_EQ(moved.gathered.value(), pass(run) * gathers);
        EXPECT_EQ(plan::Share(moved.reduced + moved.gathered), planned);
      }
    }
  }
}

TEST(Traffic, IsTheLedgersWhereParametersAreReplicated) { expect_the_ledgers(0, 2); }

TEST(Traffic, IsTheLedgersWhereNoUnitIsRetained) { expect_the_ledgers(3, 3); }

void expect_growth_with_micro_steps(int first_stage, int last_stage) {
  constexpr std::int64_t kMicroSteps = 4;
  for (const auto reduce : {ReduceSetting::kOnce, ReduceSetting::kEveryMicroStep}) {
    for (int stage = first_stage; stage <= last_stage; ++stage) {
      SCOPED_TRACE(testing::Message() << plan::name_of(reduce) << ", stage " << stage);
      Training run = even_model(2, stage);
      run.options.accumulation = kMicroSteps;
      run.options.reduce = reduce;
      const std::int64_t reduces = reduce == ReduceSetting::kOnce ? 1 : kMicroSteps;
      const std::int64_t gathers = stage == 3 ? 2 * kMicroSteps : 1;
      for (const comm::TrafficCount& moved : moved_in_a_step(run)) {
        EXPECT_EQ(moved.reduced.value(), pass(run) * reduces);
        EXPECT_EQ(moved.gathered.value(), pass(run) * gathers);
      }
    }
  }
}

TEST(Traffic, GrowsWithReductionsWhereParametersAreReplicated) {
  expect_growth_with_micro_steps(0, 2);
}

TEST(Traffic, GrowsWithGathersWhereNoUnitIsRetained) { expect_growth_with_micro_steps(3, 3); }

// The default cap.
Bytes largest_two_units(const Training& run) {
  layout::ParameterTable table;
  for (const auto& [name, parameter] : unique_parameters(model_of_rank(run, 0))) {
    const layout::ParameterOptions options{.dtype = *dtype_of(parameter.scalar_type()),
                                           .optimizer_group = 0,
                                           .trainable = parameter.requires_grad()};
    EXPECT_TRUE(table.add(name, parameter.sizes().vec(), options).has_value());
  }
  const auto units =
      layout::build_units(table, {.bytes_min = run.options.unit_bytes, .bytes_per_element = {}});
  std::vector<Bytes> sizes(2);
  for (const layout::Unit& unit : units.value()) sizes.push_back(unit.bytes());
  std::ranges::sort(sizes, std::greater());
  return sizes[0] + sizes[1];
}

TEST(Traffic, IsAsPlannedForAnyModelAndNoGatherPassesTheCap) {
  for (const std::string& model : model_names()) {
    for (const bool retain : {false, true}) {
      SCOPED_TRACE(testing::Message() << model << (retain ? ", retained" : ""));
      Training run;
      run.model = model;
      run.world = 3;
      run.options.stage = 3;
      run.options.retain = retain;
      run.options.unit_bytes = Bytes(2048);
      const Outcome outcome = train(run);
      EXPECT_EQ(difference(outcome, train_plainly(run)), "");
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const TrafficReport& traffic = outcome.traffic.at(rank);
        EXPECT_EQ(traffic.moved.gathered.value(), traffic.planned.gathered.value());
        EXPECT_EQ(traffic.moved.reduced.value(), traffic.planned.reduced.value());
        // All weights of an LSTM are inputs of one operator, which the default cap makes room for.
        if (model == "lstm") continue;
        EXPECT_LE(traffic.gathered_peak, largest_two_units(run)) << "rank " << rank;
      }
    }
  }
}

TEST(Traffic, OfSharedUnitsHasNoGathersAndTheSameBits) {
  Training run = even_model(3, 3);
  const Outcome expected = train(run);
  run.options.shared_units = true;
  EXPECT_EQ(difference(train(run), expected), "");
  for (const comm::TrafficCount& moved : moved_in_a_step(run)) {
    EXPECT_EQ(moved.gathered.value(), 0);
    EXPECT_EQ(moved.reduced.value(), pass(run));
  }
}

// A unit of the even model has 96 blocks.
constexpr std::int64_t kEvenUnit = 96 * 64 * 4;

TEST(GatheredBytes, AreNeverPassed) {
  for (const std::int64_t units : {1, 2, 3, 4}) {
    Training run = even_model(2, 3);
    run.options.retain = true;
    run.options.gathered_bytes = Bytes(units * kEvenUnit);
    const Outcome outcome = train(run);
    EXPECT_EQ(difference(outcome, train_plainly(run)), "");
    EXPECT_EQ(outcome.traffic.front().gathered_peak.value(), units * kEvenUnit);
    const auto& tag =
        outcome.memory.front().tags.at(static_cast<std::size_t>(memory::Tag::kGathered));
    EXPECT_LE(tag.bytes.peak, Bytes(units * kEvenUnit));
  }
}

// Names the option and how much is missing, and from then on nothing but that error comes.
TEST(GatheredBytes, TooFewForAnOperatorAreAnErrorThatSaysByHowMuch) {
  constexpr std::int64_t kMissing = 256;
  Training run = even_model(2, 3);
  run.options.gathered_bytes = Bytes(kEvenUnit - kMissing);
  on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
    Engine engine = make_engine(run, ranks, model);
    const std::string first = thrown_by([&] { engine.backward(model.loss(0, 0)); });
    EXPECT_NE(first.find("gathered_bytes"), std::string::npos) << first;
    EXPECT_NE(first.find(std::to_string(kMissing) + " bytes more"), std::string::npos) << first;
    // For good.
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { engine.step(); }, [&] { engine.backward(at::zeros({}).requires_grad_()); }}) {
      EXPECT_NE(thrown_by(call).find("gathered_bytes"), std::string::npos) << thrown_by(call);
    }
  });
}

// An LSTM's weights are units of their own here and all go into one operator.
TEST(GatheredBytes, ByDefaultAreEnoughForAnyOneOperator) {
  Training run;
  run.model = "lstm";
  run.world = 2;
  run.options.stage = 3;
  run.options.unit_bytes = Bytes(0);
  EXPECT_EQ(difference(train(run), train_plainly(run)), "");
}

// It is the user's error, and no rank is lost: closing gives the values back.
TEST(GatheredBytes, TooFewLeaveTheModelWholeAtTheEnd) {
  Training run = even_model(2, 3);
  run.options.gathered_bytes = Bytes(kEvenUnit - 256);
  const TestModel expected = model_of_rank(run, 0);
  on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
    Engine engine = make_engine(run, ranks, model);
    EXPECT_NE(thrown_by([&] { engine.backward(model.loss(0, 0)); }), kNothingThrown);
    engine.close();
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      EXPECT_TRUE(model.parameters[i].second.equal(expected.parameters[i].second));
    }
  });
}

}  // namespace
}  // namespace shardlight::engine
