// Stages 0 to 3 train with the same bits, and with those of one plain process: any model, number of
// ranks, accumulation, reduce setting, clipping, unit size and optimizer.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "each_stage.h"
#include "plain_twin.h"
#include "shardlight/base/environment.h"

namespace shardlight::engine {
namespace {

using plan::ReduceSetting;

bool full_tier() { return Environment::of_process().text("SHARDLIGHT_TEST_TIER") == "full"; }

constexpr std::array kAccumulations = {
    std::pair{1, ReduceSetting::kEveryMicroStep}, std::pair{4, ReduceSetting::kOnce},
    std::pair{4, ReduceSetting::kEveryMicroStep}, std::pair{1, ReduceSetting::kOnce}};
constexpr std::array kClips = {0.0, 0.05};
// What may not matter: the size of units, and what may be under way beside the computation.
struct Sizes {
  Bytes unit, bucket, prefetch;
};
constexpr std::array kSizes = {
    Sizes{.unit = Bytes(0), .bucket = Bytes(0), .prefetch = Bytes(0)},
    Sizes{.unit = Bytes(4096), .bucket = Bytes(8192), .prefetch = Bytes(4096)},
    Sizes{.unit = Bytes(1 << 20), .bucket = Bytes(1 << 20), .prefetch = Bytes(1 << 20)}};
const std::array<Optimizer, 5> kOptimizers = {
    AdamW{.lr = 1e-2}, SGD{.lr = 1e-2, .momentum = 0.9, .weight_decay = 0.1},
    Adam{.lr = 1e-2, .weight_decay = 0.1}, SGD{.lr = 1e-2}, Lion{.lr = 1e-3, .weight_decay = 0.1}};

struct Case {
  std::size_t world, accumulation, clip, sizes, optimizer;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const auto& [micro_steps, reduce] = kAccumulations.at(c.accumulation);
  return out << c.world << " ranks, " << micro_steps << " micro-steps, " << plan::name_of(reduce)
             << ", clip " << kClips.at(c.clip) << ", units of " << kSizes.at(c.sizes).unit.value()
             << ", optimizer " << c.optimizer;
}

Training training_of(const std::string& model, const Case& c) {
  Training run;
  run.model = model;
  run.world = static_cast<std::int64_t>(c.world);
  run.optimizer = kOptimizers.at(c.optimizer);
  run.options.accumulation = kAccumulations.at(c.accumulation).first;
  run.options.reduce = kAccumulations.at(c.accumulation).second;
  if (kClips.at(c.clip) > 0) run.options.clip_norm = kClips.at(c.clip);
  run.options.unit_bytes = kSizes.at(c.sizes).unit;
  run.options.bucket_bytes = kSizes.at(c.sizes).bucket;
  run.options.prefetch_bytes = kSizes.at(c.sizes).prefetch;
  run.options.deadline = Seconds(60);
  return run;
}

// Quick: a few cases a model, turned against each other from model to model, so that every two
// values of different settings meet in some model. Full: all of them.
std::vector<Case> cases(std::size_t model) {
  std::vector<Case> all;
  if (!full_tier()) {
    for (std::size_t k = 0; k < 4; ++k) {
      all.push_back({.world = 1 + (k + 3) % 4,
                     .accumulation = (k + model) % 3,
                     .clip = (k / 2 + model) % 2,
                     .sizes = ((k == 0 ? 0 : k - 1) + model) % 3,
                     .optimizer = (k + model / 2) % 5});
    }
    return all;
  }
  for (std::size_t i = 0; i < 4 * 4 * 2 * 3 * 5; ++i) {
    all.push_back({.world = 1 + i % 4,
                   .accumulation = i / 4 % 4,
                   .clip = i / 16 % 2,
                   .sizes = i / 32 % 3,
                   .optimizer = i / 96});
  }
  return all;
}

class Parity : public ::testing::TestWithParam<std::string> {};

TEST_P(Parity, OfStagesWithAPlainProcess) {
  const auto names = model_names();
  const auto model = static_cast<std::size_t>(std::ranges::find(names, GetParam()) - names.begin());
  for (const Case& c : cases(model)) {
    SCOPED_TRACE(testing::Message() << c);
    const Training run = training_of(GetParam(), c);
    expect_all_stages_equal(run, train_plainly(run));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Parity, ::testing::ValuesIn(model_names()),
                         [](const auto& chosen) { return chosen.param; });

TEST(ParityOf, OtherOrdersOfAdditionAmongStages) {
  expect_other_orders_equal_among_stages([](std::int64_t world) {
    std::vector<Training> runs;
    for (std::size_t accumulation = 4 - static_cast<std::size_t>(world); accumulation < 3;
         accumulation += 2) {
      runs.push_back(training_of("unused", {.world = static_cast<std::size_t>(world),
                                            .accumulation = accumulation,
                                            .clip = 1,
                                            .sizes = 1,
                                            .optimizer = 0}));
    }
    return runs;
  });
}

// A parameter without elements as a unit of its own, beside others and alone.
TEST(ParityOf, UnitsOfNoElements) {
  for (const std::int64_t world : {1, 2, 3}) {
    Training run;
    run.model = "sizes";
    run.world = world;
    run.options.unit_bytes = Bytes(0);
    run.options.deadline = Seconds(20);
    expect_all_stages_equal(run, train_plainly(run));
  }
}

TEST(ParityOf, GroupsAndAScheduleOfLearningRates) {
  for (const std::int64_t world : {1, 3}) {
    Training run;
    run.world = world;
    run.options.unit_bytes = Bytes(0);
    run.options.groups = {{.patterns = {"*.bias"}, .lr = 0.1, .weight_decay = 0},
                          {.patterns = {"second.*"}, .lr = {}, .weight_decay = 0.5}};
    run.options.lr_schedule = warmup_cosine(2, 10);
    expect_all_stages_equal(run, train_plainly(run));
  }
}

// Rank 1's gradient of the second step is not finite: all ranks leave that step out.
TEST(ParityOf, StepsThatAreSkippedWithNoSuchSteps) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(testing::Message() << "stage " << stage);
    Training run;
    run.world = 3;
    run.options.stage = stage;
    run.options.unit_bytes = Bytes(1024);
    run.options.clip_norm = 0.05;
    run.steps = 1;
    const Outcome expected = train_plainly(run);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      accumulate(engine, run, model, 0);
      EXPECT_FALSE(engine.step().skipped);
      const at::Tensor loss = model.loss(1, ranks.rank.value());
      engine.backward(ranks.rank == Rank(1) ? loss * std::numeric_limits<float>::infinity() : loss);
      EXPECT_TRUE(engine.step().skipped);
      engine.close();
      for (const auto& [name, parameter] : model.parameters) {
        EXPECT_TRUE(parameter.equal(expected.parameters.at(name))) << name;
      }
    });
  }
}

TEST(ParityOf, ClippingWithTorchsOwnToRounding) {
  Training run;
  run.world = 3;
  run.optimizer = SGD{.lr = 0.5, .momentum = 0.9};
  run.options.clip_norm = 0.01;
  run.options.stage = 3;
  const Outcome torch = train_plainly(run, Clipping::kByTorch);
  const Outcome ours = train(run);
  for (const auto& [name, value] : torch.parameters) {
    EXPECT_TRUE(value.allclose(ours.parameters.at(name), 1e-5, 1e-7)) << name;
  }
  Training unclipped = run;
  unclipped.options.clip_norm.reset();
  EXPECT_NE(difference(ours, train(unclipped)), "");
}

TEST(ParityOf, AnySplitOfTheGlobalBatchInReproducibleMode) {
  for (const char* model : {"mlp", "experts"}) {
    for (const bool clipped : {false, true}) {
      Training run;
      run.model = model;
      run.world = 1;
      run.options.accumulation = 8;
      run.options.reproducible = true;
      run.options.unit_bytes = Bytes(512);
      if (clipped) run.options.clip_norm = 0.05;
      const Outcome expected = train_plainly(run);
      for (const std::int64_t world : {1, 2, 4, 8}) {
        run.world = world;
        run.options.accumulation = 8 / world;
        for (const int stage : {0, 3}) {
          SCOPED_TRACE(testing::Message() << model << ", " << world << " ranks, stage " << stage);
          run.options.stage = stage;
          EXPECT_EQ(difference_of_values(train(run), expected), "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardlight::engine
