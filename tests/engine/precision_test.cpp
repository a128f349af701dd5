// 16-bit parameters: masters, edits, gradients as users see them, the loss scale, and how far from
// fp32 training they come. That stages have the same bits in each dtype is parity_test.cpp's.
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <limits>

#include "each_stage.h"
#include "plain_twin.h"

namespace shardlight::engine {
namespace {

using testing::HasSubstr;

class Precision : public EachStage {
 protected:
  Training training(const std::string& model) const {
    Training run;
    run.model = model;
    run.world = 2;
    run.options.stage = stage_;
    run.options.unit_bytes = Bytes(0);
    run.options.deadline = Seconds(20);
    return run;
  }
};

at::Tensor read(Engine& engine, const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  const auto scope = engine.gathered({parameter});
  return parameter.detach().clone();
}

TEST_F(Precision, KeepsParametersTheRoundingOfTheirMasters) {
  each_stage([&] {
    const Training run = training("mixed");
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step < run.steps; ++step) {
        accumulate(engine, run, model, step);
        engine.step();
      }
      for (const auto& [name, parameter] : model.parameters) {
        if (!parameter.requires_grad() || parameter.scalar_type() == at::kFloat) continue;
        const at::Tensor master = engine.optimizer_state(parameter, "master");
        EXPECT_EQ(master.scalar_type(), at::kFloat);
        EXPECT_TRUE(master.to(parameter.scalar_type()).equal(read(engine, parameter))) << name;
        EXPECT_FALSE(master.equal(read(engine, parameter).to(at::kFloat))) << name << " is rounded";
      }
    });
  });
}

// An edit in 16 bits may not cost the masters of what it did not change.
TEST_F(Precision, ChangesMastersOnlyWhereAnEditChangedTheParameter) {
  each_stage([&] {
    Training run = training("bf16");
    run.optimizer = SGD{.lr = 0.1};
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      const at::Tensor& parameter = model.parameters.at(0).second;
      accumulate(engine, run, model, 0);
      engine.step();
      at::Tensor expected = engine.optimizer_state(parameter, "master");
      EXPECT_FALSE(expected.to(at::kBFloat16).to(at::kFloat).equal(expected));
      expected.select(0, 3).fill_(0.5);
      {
        const at::NoGradGuard no_grad;
        parameter.select(0, 3).fill_(0.5);
      }
      // Gradients of 0 leave everything as it is.
      engine.backward(model.loss(1, ranks.rank.value()) * 0);
      engine.step();
      EXPECT_TRUE(engine.optimizer_state(parameter, "master").equal(expected));
    });
  });
}

TEST_F(Precision, ShowsGradientsInTheParametersDtypeAndKeepsWhatIsNotChanged) {
  each_stage([&] {
    Training run = training("bf16");
    run.optimizer = SGD{.lr = 1};
    std::map<std::string, at::Tensor> untouched;
    for (const bool writes : {false, true}) {
      on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
        Engine engine = make_engine(run, ranks, model);
        engine.backward(model.loss(0, ranks.rank.value()));
        for (const auto& [name, parameter] : model.parameters) {
          ASSERT_EQ(parameter.grad().scalar_type(), at::kBFloat16);
          const at::NoGradGuard no_grad;
          // Writes, and changes nothing.
          if (writes) parameter.mutable_grad().mul_(1);
        }
        engine.step();
        for (const auto& [name, parameter] : model.parameters) {
          const at::Tensor master = engine.optimizer_state(parameter, "master");
          if (ranks.rank != Rank(0)) continue;
          const auto [first, is_new] = untouched.try_emplace(name, master);
          EXPECT_TRUE(is_new || master.equal(first->second)) << name;
        }
      });
    }
  });
}

TEST_F(Precision, HalvesTheLossScaleAfterAnOverflowAndDoublesItLater) {
  each_stage([&] {
    Training run = training("fp16");
    run.options.loss_scaling = {.initial = 1024, .growth_interval = 2};
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      // Of one rank alone, which no rank steps with.
      const double factor = ranks.rank == Rank(1) ? std::numeric_limits<double>::infinity() : 1.0;
      const at::Tensor before = read(engine, model.parameters.at(0).second);
      engine.backward(model.loss(0, ranks.rank.value()) * factor);
      StepReport report = engine.step();
      EXPECT_TRUE(report.skipped);
      EXPECT_EQ(report.loss_scale, 1024);
      EXPECT_TRUE(read(engine, model.parameters.at(0).second).equal(before));
      for (const double expected : {512, 512, 1024}) {
        engine.scaled(model.loss(1, ranks.rank.value())).backward();
        report = engine.step();
        EXPECT_FALSE(report.skipped);
        EXPECT_EQ(report.loss_scale, expected);
      }
    });
  });
}

TEST_F(Precision, RefusesALossOfAnFp16ModelThatIsNotScaled) {
  each_stage([&] {
    const Training run = training("fp16");
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      // One that was scaled and is not gone back through says nothing of another.
      engine.scaled(model.loss(0, ranks.rank.value())).item<double>();
      try {
        model.loss(0, ranks.rank.value()).backward();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("Engine::scaled(loss)"));
      }
    });
  });
}

TEST_F(Precision, ScalesEachLossByItself) {
  each_stage([&] {
    Training run = training("fp16");
    run.options.accumulation = 2;
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      const at::Tensor a = engine.scaled(model.loss(0, ranks.rank.value()));
      const at::Tensor b = engine.scaled(model.loss(1, ranks.rank.value()));
      a.backward();
      b.backward();
      EXPECT_FALSE(engine.step().skipped);
    });
  });
}

// Forward and backward round each value to 8 bits of mantissa, 2^-9 of it, and a gradient comes
// from a chain of some eight of these; masters and sums are fp32. So with SGD a parameter differs
// from fp32 training's by 2^-6 of what it was moved by.
TEST_F(Precision, OfBf16ComesAsCloseToFp32AsItsRounding) {
  constexpr double kLr = 0.1;
  Training run = training("bf16");
  run.optimizer = SGD{.lr = kLr};
  run.options.stage = 3;
  const Outcome half = train(run);
  Training exact = run;
  exact.model = "fp32";
  const Outcome full = train_plainly(exact);
  for (const auto& [name, parameter] : full.parameters) {
    double moved = 0;
    for (std::int64_t step = 0; step < run.steps; ++step) {
      const at::Tensor& gradient = full.gradients.at(std::to_string(step) + "/" + name);
      moved += kLr * gradient.abs().max().item<double>();
    }
    ASSERT_GT(moved, 0);
    const at::Tensor error = (half.states.at(name + "/master") - parameter).abs().max();
    EXPECT_GT(error.item<double>(), 0) << name;
    EXPECT_LT(error.item<double>(), 0x1p-6 * moved) << name;
  }
}

}  // namespace
}  // namespace shardlight::engine
