// Backward passes that are not one call over one graph: a graph used twice, hooks of the user's
// that change gradients, and a backward that fails on the way and is tried again.
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <stdexcept>
#include <utility>

#include "batches.h"
#include "each_stage.h"
#include "plain_twin.h"

namespace shardlight::engine {
namespace {

using Values = std::map<std::string, at::Tensor>;

Training training(int stage) {
  Training run;
  run.world = 2;
  run.options.stage = stage;
  run.options.unit_bytes = Bytes(0);
  run.options.deadline = Seconds(20);
  return run;
}

class Backward : public EachStage {};

Values gradients_of(Engine& engine, const TestModel& model) {
  Values gradients;
  for (const auto& [name, parameter] : model.parameters) {
    gradients[name] = engine.gradient(parameter);
  }
  return gradients;
}

// Two micro-steps over one graph are two micro-steps.
TEST_F(Backward, GoesOverAGraphThatIsKeptAgain) {
  each_stage([&] {
    Training run = training(stage_);
    const auto once = ranks_as_threads(run.world);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Values expected;
      {
        Engine engine = make_engine(run, once[static_cast<std::size_t>(ranks.rank.value())], model);
        engine.backward(model.loss(0, ranks.rank.value()));
        expected = gradients_of(engine, model);
      }
      Training twice = run;
      twice.options.accumulation = 2;
      Engine engine = make_engine(twice, ranks, model);
      const at::Tensor loss = model.loss(0, ranks.rank.value());
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      for (const auto& [name, gradient] : gradients_of(engine, model)) {
        EXPECT_TRUE(gradient.allclose(expected.at(name), 1e-6, 1e-8)) << name;
      }
    });
  });
}

TEST_F(Backward, HonoursHooksThatChangeGradients) {
  each_stage([&] {
    const Training run = training(stage_);
    const Outcome plain = train_plainly(run);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      const auto& [name, parameter] = model.parameters.at(2);
      parameter.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
      Engine engine = make_engine(run, ranks, model);
      engine.backward(model.loss(0, ranks.rank.value()));
      EXPECT_TRUE(engine.gradient(parameter).equal(plain.gradients.at("0/" + name) * 2));
      engine.step();
    });
  });
}

// Half of the gradients of a backward that failed may have been added already: what comes then is
// an error, never a sum of both.
TEST_F(Backward, ThatFailedEndsTheEngine) {
  each_stage([&] {
    const Training run = training(stage_);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      bool fails = true;
      const auto fail_once = [&](const at::Tensor& /*gradient*/) {
        if (std::exchange(fails, false)) throw std::runtime_error("the user's own");
      };
      model.parameters.at(2).second.register_hook(fail_once);
      Engine engine = make_engine(run, ranks, model);
      if (ranks.rank == Rank(0)) {
        EXPECT_THROW(engine.backward(model.loss(0, ranks.rank.value())), std::runtime_error);
      } else {
        EXPECT_THROW(model.loss(0, ranks.rank.value()).backward(), std::runtime_error);
        model.loss(0, ranks.rank.value());
      }
      try {
        engine.backward(model.loss(0, ranks.rank.value()));
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_NE(error.message().find("failed on the way"), std::string::npos) << error.message();
      }
    });
  });
}

// Activation checkpointing as torch's reentrant one: the backward of a segment goes forward again
// and then backward within the backward.
using Segment = std::function<at::Tensor(const at::Tensor&)>;

struct Recomputed : torch::autograd::Function<Recomputed> {
  static thread_local Segment segment;

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return segment(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoGradMode recorded(true);
    const at::Tensor x = context->get_saved_variables().front().detach().requires_grad_();
    segment(x).backward(gradients.front());
    return {x.grad()};
  }
};

thread_local Segment Recomputed::segment;

TEST_F(Backward, WithinABackwardIsNotAMicroStepOfItsOwn) {
  each_stage([&] {
    for (const std::int64_t accumulation : {1, 2}) {
      Training run = training(stage_);
      run.options.accumulation = accumulation;
      run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
      const Outcome plain = train_plainly(run);
      on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
        const auto layer = [&](std::size_t i, const at::Tensor& x) {
          return at::linear(x, model.parameters.at(2 * i).second,
                            model.parameters.at(2 * i + 1).second);
        };
        Recomputed::segment = [&](const at::Tensor& x) { return at::tanh(layer(1, x)); };
        Engine engine = make_engine(run, ranks, model);
        for (std::int64_t step = 0; step < run.steps; ++step) {
          for (std::int64_t micro = 0; micro < accumulation; ++micro) {
            const at::Tensor x =
                normal_batch({7, 13}, step, ranks.rank.value() * accumulation + micro);
            const at::Tensor hidden = Recomputed::apply(at::tanh(layer(0, x)));
            engine.backward(layer(2, hidden).square().mean());
          }
          for (const auto& [name, gradient] : gradients_of(engine, model)) {
            const at::Tensor& expected = plain.gradients.at(std::to_string(step) + "/" + name);
            EXPECT_TRUE(gradient.equal(expected)) << name << " of step " << step;
          }
          engine.step();
        }
      });
    }
  });
}

// All of the model is in the segment, so no gradient arrives outside of the inner backward.
TEST_F(Backward, OfTheWholeModelWithinABackwardEndsWithTheOuterOne) {
  each_stage([&] {
    const Training run = training(stage_);
    const Outcome plain = train_plainly(run);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Recomputed::segment = [&](const at::Tensor& x) {
        at::Tensor hidden = x;
        for (std::size_t i = 0; i < 3; ++i) {
          hidden = at::linear(hidden, model.parameters.at(2 * i).second,
                              model.parameters.at(2 * i + 1).second);
          if (i < 2) hidden = at::tanh(hidden);
        }
        return hidden.square().mean();
      };
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step < run.steps; ++step) {
        const at::Tensor x = normal_batch({7, 13}, step, ranks.rank.value()).requires_grad_();
        Recomputed::apply(x).backward();
        for (const auto& [name, gradient] : gradients_of(engine, model)) {
          EXPECT_TRUE(gradient.equal(plain.gradients.at(std::to_string(step) + "/" + name)))
              << name << " of step " << step;
        }
        engine.step();
      }
    });
  });
}

}  // namespace
}  // namespace shardlight::engine
