// What users see and change in .grad between backward and step, at every stage.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include "each_stage.h"
#include "plain_twin.h"

namespace shardlight::engine {
namespace {

using testing::HasSubstr;

Training training(int stage, std::int64_t accumulation = 1) {
  Training run;
  run.world = 2;
  run.options.stage = stage;
  run.options.unit_bytes = Bytes(0);
  run.options.accumulation = accumulation;
  run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
  run.options.deadline = Seconds(20);
  return run;
}

class GradientView : public EachStage {
 protected:
  // On every rank of two, at every stage, between the first backward and its step.
  void after_backward(const std::function<void(Engine&, const TestModel&)>& body) {
    each_stage([&] {
      const Training run = training(stage_);
      on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
        Engine engine = make_engine(run, ranks, model);
        engine.backward(model.loss(0, ranks.rank.value()));
        body(engine, model);
      });
    });
  }
};

std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing thrown";
}

TEST_F(GradientView, IsTheMeanOverRanksAndMicroSteps) {
  each_stage([&] {
    for (const std::int64_t accumulation : {1, 2}) {
      const Training run = training(stage_, accumulation);
      const Outcome plain = train_plainly(run);
      on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
        Engine engine = make_engine(run, ranks, model);
        for (std::int64_t step = 0; step < run.steps; ++step) {
          for (std::int64_t micro = 0; micro < accumulation; ++micro) {
            for (const auto& [name, parameter] : model.parameters) {
              EXPECT_FALSE(parameter.grad().defined()) << name << " before the last micro-step";
            }
            engine.backward(model.loss(step, ranks.rank.value() * accumulation + micro));
          }
          for (const auto& [name, parameter] : model.parameters) {
            EXPECT_TRUE(
                parameter.grad().equal(plain.gradients.at(std::to_string(step) + "/" + name)))
                << name << " of step " << step;
          }
          engine.step();
        }
        for (const auto& [name, parameter] : model.parameters) {
          EXPECT_FALSE(parameter.grad().defined()) << name << " after the step";
        }
      });
    }
  });
}

// As torch.nn.utils.clip_grad_norm_ does it.
void clip_by_hand(const TestModel& model, double limit) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms, gradients;
  for (const auto& [name, parameter] : model.parameters) {
    gradients.push_back(parameter.grad());
    norms.push_back(parameter.grad().norm());
  }
  const double norm = at::stack(norms).norm().item<double>();
  for (at::Tensor& gradient : gradients) gradient.mul_(std::min(1.0, limit / (norm + 1e-6)));
}

// The engine's own clipping of the same gradients has the same factor, but for the norm's rounding.
TEST_F(GradientView, ThatUsersClipIsWhatIsSteppedWith) {
  constexpr double kLimit = 0.01;
  std::map<std::string, at::Tensor> first;
  each_stage([&] {
    Training clipped = training(stage_);
    clipped.options.clip_norm = kLimit;
    const Outcome expected = train_plainly(clipped);
    const Training run = training(stage_);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step < run.steps; ++step) {
        engine.backward(model.loss(step, ranks.rank.value()));
        clip_by_hand(model, kLimit);
        const StepReport report = engine.step();
        EXPECT_NEAR(report.gradient_norm, kLimit, 1e-5);
      }
      engine.close();
      if (ranks.rank != Rank(0)) return;
      for (const auto& [name, parameter] : model.parameters) {
        EXPECT_TRUE(parameter.allclose(expected.parameters.at(name), 1e-5, 1e-7)) << name;
        const auto [same, is_new] = first.try_emplace(name, parameter.detach().clone());
        EXPECT_TRUE(is_new || parameter.equal(same->second)) << name << " at another stage";
      }
    });
  });
}

TEST_F(GradientView, ThatUsersReplaceIsWhatIsSteppedWith) {
  each_stage([&] {
    Training run = training(stage_);
    run.steps = 1;
    run.optimizer = SGD{.lr = 1};
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      std::map<std::string, at::Tensor> before;
      for (const auto& [name, parameter] : model.parameters)
        before[name] = parameter.detach().clone();
      Engine engine = make_engine(run, ranks, model);
      engine.backward(model.loss(0, ranks.rank.value()));
      std::map<std::string, at::Tensor> stepped;
      for (const auto& [name, parameter] : model.parameters) {
        const at::Tensor gradient = parameter.grad();
        stepped[name] = gradient.clone();
        if (name.ends_with("bias")) stepped[name] = at::ones_like(gradient);
        if (name.ends_with("bias")) parameter.mutable_grad() = stepped[name];
      }
      engine.step();
      engine.close();
      if (ranks.rank != Rank(0)) return;  // where the values came from
      for (const auto& [name, parameter] : model.parameters) {
        EXPECT_TRUE(parameter.detach().equal(before.at(name) - stepped.at(name))) << name;
      }
    });
  });
}

TEST_F(GradientView, ChangedOnOneRankOnlyIsAnErrorWithItsName) {
  after_backward([&](Engine& engine, const TestModel& model) {
    const auto& [name, parameter] = model.parameters.at(1);
    if (engine.rank() == Rank(1)) {
      const at::NoGradGuard no_grad;
      parameter.mutable_grad().mul_(2);
    }
    EXPECT_THAT(thrown_by([&] { engine.step(); }),
                testing::AllOf(HasSubstr("gradient of " + name), HasSubstr("on some ranks")));
  });
}

TEST_F(GradientView, TakenOutIsAnErrorWithItsName) {
  after_backward([&](Engine& engine, const TestModel& model) {
    const auto& [name, parameter] = model.parameters.at(1);
    parameter.mutable_grad().reset();
    EXPECT_THAT(thrown_by([&] { engine.step(); }),
                testing::AllOf(HasSubstr("gradient of " + name), HasSubstr("taken out")));
  });
}

TEST_F(GradientView, ReadPastItsTimeOrWithoutAnOperatorIsAnErrorWithItsName) {
  after_backward([&](Engine& engine, const TestModel& model) {
    const auto& [name, parameter] = model.parameters.at(1);
    const at::Tensor kept = parameter.grad();
    EXPECT_THAT(thrown_by([&] { kept.data_ptr(); }),
                testing::AllOf(HasSubstr("gradient of " + name), HasSubstr("not gathered")));
    EXPECT_NE(kept.sum().item<float>(), 0);
    engine.step();
    EXPECT_THAT(thrown_by([&] { kept.sum(); }),
                testing::AllOf(HasSubstr("gradient of " + name), HasSubstr("step has used it")));
  });
}

// What stands in .grad never reaches the next step, and what a user keeps is not the next gradient.
TEST_F(GradientView, OfOneStepIsNoneOfTheNext) {
  each_stage([&] {
    Training run = training(stage_);
    run.optimizer = SGD{.lr = 0};
    const Outcome plain = train_plainly(run);
    using Change = std::function<void(const at::Tensor&)>;
    const std::vector<Change> changes = {
        [](const at::Tensor& p) { p.mutable_grad() = p.grad() * 0.5; },
        [](const at::Tensor& p) { p.mutable_grad().set_data(at::ones_like(p)); },
        [](const at::Tensor& p) { p.mutable_grad().mul_(0.5); },
    };
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      const at::Tensor& first = model.parameters.at(1).second;
      at::Tensor kept;
      for (std::int64_t step = 0; step < run.steps; ++step) {
        engine.backward(model.loss(step, ranks.rank.value()));
        // At the second step it has memory of its own.
        if (step == 1) {
          EXPECT_THAT(thrown_by([&] { kept.sum(); }), HasSubstr("is gone"));
        }
        for (const auto& [name, parameter] : model.parameters) {
          EXPECT_TRUE(parameter.grad().equal(plain.gradients.at(std::to_string(step) + "/" + name)))
              << name << " of step " << step;
        }
        kept = first.grad();
        const at::NoGradGuard no_grad;
        changes.at(static_cast<std::size_t>(step))(first);
        EXPECT_GT(engine.step().gradient_norm, 0);
      }
    });
  });
}

TEST_F(GradientView, MayBeSwappedWithAnother) {
  each_stage([&] {
    Training run = training(stage_);
    run.optimizer = SGD{.lr = 1};
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      const at::Tensor& a = model.parameters.at(1).second;
      const at::Tensor& b = model.parameters.at(3).second;
      ASSERT_EQ(a.sizes(), b.sizes());
      const auto read = [&](const at::Tensor& parameter) {
        const at::NoGradGuard no_grad;
        return parameter.clone();
      };
      const at::Tensor before_a = read(a), before_b = read(b);
      engine.backward(model.loss(0, ranks.rank.value()));
      const at::Tensor of_a = engine.gradient(a), of_b = engine.gradient(b);
      std::swap(a.mutable_grad(), b.mutable_grad());
      engine.step();
      EXPECT_TRUE(read(a).equal(before_a - of_b));
      EXPECT_TRUE(read(b).equal(before_b - of_a));
    });
  });
}

TEST_F(GradientView, OfAnotherShapeIsRefusedByName) {
  after_backward([&](Engine& engine, const TestModel& model) {
    const auto& [name, parameter] = model.parameters.at(0);
    parameter.mutable_grad() = parameter.grad().t();
    EXPECT_THAT(thrown_by([&] { engine.step(); }),
                testing::AllOf(HasSubstr("gradient of " + name), HasSubstr("its shape")));
  });
}

// As in torch: a gradient that nobody has is none. One that some rank has is there on all.
TEST_F(GradientView, IsThereOnAllRanksOrOnNone) {
  each_stage([&] {
    Training run = training(stage_);
    run.model = "unused";
    const Outcome plain = train_plainly(run);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      engine.backward(model.loss(0, ranks.rank.value()));
      for (const auto& [name, parameter] : model.parameters) {
        ASSERT_EQ(parameter.grad().defined(), !name.starts_with("never")) << name;
        if (!parameter.grad().defined()) continue;
        EXPECT_TRUE(parameter.grad().equal(plain.gradients.at("0/" + name))) << name;
      }
      engine.step();
    });
  });
}

}  // namespace
}  // namespace shardlight::engine
