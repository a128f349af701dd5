// Sums of gradients in the parameters' own 16 bits (`grad_dtype` compute): the bits of one plain
// process at every stage, sums by hand, what a sum cannot hold, edits, and what moves.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "each_stage.h"
#include "plain_twin.h"

namespace shardlight::engine {
namespace {

using plan::GradientDtype;
using plan::ReduceSetting;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;

Training training(const std::string& model, std::int64_t world) {
  Training run;
  run.model = model;
  run.world = world;
  run.options.grad_dtype = GradientDtype::kCompute;
  run.options.unit_bytes = Bytes(0);
  run.options.deadline = Seconds(60);
  // So that a sum of 16 fp16 gradients holds.
  run.options.loss_scaling.initial = 1024;
  return run;
}

class GradDType : public ::testing::TestWithParam<std::string> {};

// Numbers of ranks, micro-steps, clipping and what is under way, turned against each other.
TEST_P(GradDType, OfTheParametersHasTheBitsOfAPlainProcessAtEveryStage) {
  constexpr double kClip = 1e-3;
  for (std::int64_t world = 1; world <= 4; ++world) {
    for (const bool accumulates : {false, true}) {
      Training run = training(GetParam(), world);
      run.options.accumulation = accumulates ? 4 : 1;
      run.options.reduce = world % 2 == 0 ? ReduceSetting::kEveryMicroStep : ReduceSetting::kOnce;
      if (accumulates) run.options.clip_norm = kClip;
      if (world > 2) {
        run.options.unit_bytes = Bytes(4096);
        run.options.bucket_bytes = Bytes(8192);
        run.options.prefetch_bytes = Bytes(4096);
      }
      SCOPED_TRACE(testing::Message() << world << " ranks, " << run.options.accumulation);
      const Outcome expected = train_plainly(run);
      if (accumulates) {
        EXPECT_GT(expected.norms.front(), kClip);
      }
      expect_all_stages_equal(run, expected);
      // Of one gradient the sum is itself, of more it is rounded.
      run.options.grad_dtype = GradientDtype::kFp32;
      EXPECT_EQ(difference(expected, train_plainly(run)).empty(), world == 1 && !accumulates);
    }
  }
}

TEST_P(GradDType, OfTheParametersKeepsOtherOrdersOfAdditionAmongStages) {
  expect_other_orders_equal_among_stages([](std::int64_t world) {
    Training run = training(GetParam(), world);
    run.options.accumulation = world - 2;
    run.options.reduce = ReduceSetting::kEveryMicroStep;
    return std::vector<Training>{run};
  });
}

INSTANTIATE_TEST_SUITE_P(Models, GradDType, ::testing::Values("bf16", "fp16", "mixed"),
                         [](const auto& chosen) { return chosen.param; });

TEST(GradDTypeOfModels, TheParametersIsReproducibleOverSplitsOfTheBatch) {
  for (const char* model : {"bf16", "fp16"}) {
    Training run = training(model, 1);
    run.options.reproducible = true;
    run.options.accumulation = 4;
    const Outcome expected = train_plainly(run);
    for (const std::int64_t world : {1, 2, 4}) {
      run.world = world;
      run.options.accumulation = 4 / world;
      for (const int stage : {0, 3}) {
        SCOPED_TRACE(testing::Message() << model << ", " << world << " ranks, stage " << stage);
        run.options.stage = stage;
        EXPECT_EQ(difference_of_values(train(run), expected), "");
      }
    }
  }
}

class GradDTypeOf : public EachStage {
 protected:
  // One step with SGD of lr 1, where every element of a rank's gradient is the rank's number.
  // `before` is called between backward and step, `after` with the values before the step.
  using Before = std::function<void(Engine&, const TestModel&)>;
  using After =
      std::function<void(Engine&, const TestModel&, const StepReport&, const Outcome& values)>;
  static void step_with(Training run, const std::vector<double>& gradients, const Before& before,
                        const After& after) {
    run.optimizer = SGD{.lr = 1};
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      const double mine = gradients.at(static_cast<std::size_t>(ranks.rank.value()));
      Outcome values;
      for (const auto& [name, parameter] : model.parameters) {
        parameter.register_hook(
            [=](const at::Tensor& given) { return at::full_like(given, mine); });
        values.parameters[name] = engine.optimizer_state(parameter, "master");
      }
      engine.backward(model.loss(0, 0));
      before(engine, model);
      after(engine, model, engine.step(), values);
    });
  }
};

std::int64_t elements_of(const TestModel& model) {
  std::int64_t elements = 0;
  for (const auto& [name, parameter] : model.parameters) elements += parameter.numel();
  return elements;
}

// A bfloat16 has 8 digits: 257 is in the middle of 256 and 258, and 256 is even.
TEST_F(GradDTypeOf, TheParametersRoundsEveryAddition) {
  using Kind = comm::ReduceOrderKind;
  struct Case {
    GradientDtype dtype = GradientDtype::kFp32;
    comm::ReduceOrder order;
    double sum = 0;
  };
  const std::array cases = {
      Case{GradientDtype::kFp32, {}, 259},     // ((256 + 1) + 1) + 1
      Case{GradientDtype::kCompute, {}, 256},  // each 257 is 256
      Case{GradientDtype::kCompute, {.kind = Kind::kGrouped, .group = 2}, 258},  // 256 + (1 + 1)
      Case{GradientDtype::kCompute, {.kind = Kind::kTree}, 258}};
  each_stage([&] {
    for (const Case& c : cases) {
      Training run = training("bf16", 4);
      run.options.stage = stage_;
      run.options.grad_dtype = c.dtype;
      run.options.order = c.order;
      const double mean = c.sum / 4;
      step_with(
          run, {256, 1, 1, 1},
          [&](Engine& engine, const TestModel& model) {
            for (const auto& [name, parameter] : model.parameters) {
              const at::Tensor gradient = engine.gradient(parameter);
              EXPECT_TRUE(gradient.equal(at::full_like(gradient, mean))) << name;
            }
          },
          [&](Engine& engine, const TestModel& model, const StepReport& report,
              const Outcome& values) {
            EXPECT_NEAR(report.gradient_norm,
                        mean * std::sqrt(static_cast<double>(elements_of(model))), 1e-9);
            for (const auto& [name, parameter] : model.parameters) {
              EXPECT_TRUE(engine.optimizer_state(parameter, "master")
                              .equal(values.parameters.at(name) - mean))
                  << name;
            }
          });
    }
  });
}

// 80,000 is above the largest fp16, 65,504.
TEST_F(GradDTypeOf, TheParametersSkipsAStepWhoseSumIsTooLarge) {
  each_stage([&] {
    for (const GradientDtype dtype : {GradientDtype::kFp32, GradientDtype::kCompute}) {
      Training run = training("fp16", 2);
      run.options.stage = stage_;
      run.options.grad_dtype = dtype;
      run.options.loss_scaling.initial = 4;
      const bool skips = dtype == GradientDtype::kCompute;
      step_with(
          run, {40'000, 40'000}, [](Engine&, const TestModel&) {},
          [&](Engine& engine, const TestModel& model, const StepReport& report,
              const Outcome& values) {
            EXPECT_EQ(report.skipped, skips);
            EXPECT_EQ(report.loss_scale, 4);
            for (const auto& [name, parameter] : model.parameters) {
              const at::Tensor master = engine.optimizer_state(parameter, "master");
              EXPECT_EQ(master.equal(values.parameters.at(name)), skips) << name;
            }
            engine.backward(model.loss(0, 0));
            EXPECT_EQ(engine.step().loss_scale, skips ? 2 : 4);
          });
    }
  });
}

Bytes gathered(const Engine& engine) {
  const MemoryReport report = engine.memory();
  return std::ranges::find(report.tags, memory::Tag::kGathered, &TagReport::tag)->bytes.now;
}

// A mean of 2.5 / 3 has no bfloat16: what is not edited is stepped with in fp32.
TEST_F(GradDTypeOf, TheParametersTakesEditsAndKeepsTheRestUnrounded) {
  const float mean = 2.5F * static_cast<float>(1.0 / 3);
  each_stage([&] {
    Training run = training("bf16", 3);
    run.options.stage = stage_;
    Bytes before_edits;
    step_with(
        run, {1, 1, 0.5},
        [&](Engine& engine, const TestModel& model) {
          if (engine.rank() == Rank(0)) before_edits = gathered(engine);
          const at::NoGradGuard no_grad;
          const at::Tensor& gradient = model.parameters.at(0).second.grad();
          EXPECT_TRUE(gradient.equal(at::full_like(gradient, mean)));
          gradient.select(0, 3).fill_(7);
        },
        [&](Engine& engine, const TestModel& model, const StepReport& report,
            const Outcome& values) {
          const auto edited = static_cast<double>(model.parameters.at(0).second.size(1));
          const auto others = static_cast<double>(elements_of(model)) - edited;
          EXPECT_NEAR(report.gradient_norm,
                      std::sqrt(edited * 49 + others * double{mean} * double{mean}), 1e-4);
          for (std::size_t p = 0; p < model.parameters.size(); ++p) {
            const auto& [name, parameter] = model.parameters[p];
            at::Tensor change = at::full_like(values.parameters.at(name), mean);
            if (p == 0) change.select(0, 3).fill_(7);
            EXPECT_TRUE(engine.optimizer_state(parameter, "master")
                            .equal(values.parameters.at(name) - change))
                << name;
          }
          if (engine.rank() == Rank(0)) {
            EXPECT_EQ(gathered(engine), before_edits);
          }
        });
  });
}

// Sums are half as many bytes, and so are gradients that a rank keeps before they are added.
TEST_F(GradDTypeOf, TheParametersMovesHalfTheBytes) {
  each_stage([&] {
    Training run = training("bf16", 2);
    run.options.stage = stage_;
    const auto halved = train(run).traffic;
    run.options.grad_dtype = GradientDtype::kFp32;
    const auto full = train(run).traffic;
    for (std::size_t rank = 0; rank < halved.size(); ++rank) {
      const comm::TrafficCount& moved = halved[rank].moved;
      EXPECT_EQ(moved.reduced, halved[rank].planned.reduced);
      EXPECT_EQ(moved.gathered, halved[rank].planned.gathered);
      const bool kept = stage_ < 2;
      EXPECT_EQ(moved.reduced * (kept ? 2 : 1), full[rank].moved.reduced);
      if (stage_ == 0) {
        EXPECT_EQ(moved.gathered * 2, full[rank].moved.gathered);
      }
    }
  });
}

// Where units differ by it, whoever comes second is told before they work together.
TEST(GradDTypeOfRanks, IsComparedAsTheyMeet) {
  for (const char* model : {"mlp", "bf16"}) {
    Training run;
    run.model = model;
    run.world = 2;
    run.options.deadline = Seconds(20);
    std::array<std::string, 2> said;
    on_threads(run, [&](const Ranks& ranks, const TestModel& made) {
      Training mine = run;
      if (ranks.rank == Rank(1)) mine.options.grad_dtype = GradientDtype::kCompute;
      try {
        const Engine engine = make_engine(mine, ranks, made);
      } catch (const Error& error) {
        said.at(static_cast<std::size_t>(ranks.rank.value())) = error.message();
      }
    });
    EXPECT_THAT(said, Contains(HasSubstr("grad_dtype"))) << model;
    EXPECT_THAT(said, Each(testing::Not(testing::IsEmpty()))) << model;
    if (run.model == "mlp") {
      EXPECT_THAT(said, Each(HasSubstr("grad_dtype")));
    }
  }
}

}  // namespace
}  // namespace shardlight::engine
