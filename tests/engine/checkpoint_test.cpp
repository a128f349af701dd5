// shardlight::checkpoint, with and without an engine: the bits of the plain model, the same
// dropout, and fewer activations.
#include "shardlight/engine/checkpoint.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "batches.h"
#include "each_stage.h"
#include "plain_twin.h"

namespace shardlight::engine {
namespace {

class Checkpoint : public EachStage {};

at::Tensor layer(const TestModel& model, std::size_t i, const at::Tensor& x) {
  return at::linear(x, model.parameters.at(2 * i).second, model.parameters.at(2 * i + 1).second);
}

at::Tensor body(const TestModel& model, const at::Tensor& x, double dropout) {
  const at::Tensor hidden = at::dropout(at::tanh(layer(model, 0, x)), dropout, /*train=*/true);
  return at::tanh(layer(model, 1, hidden));
}

// No input requires a gradient: the parameters within get theirs all the same.
TEST_F(Checkpoint, UnderTheEngineHasTheBitsOfThePlainModel) {
  each_stage([&] {
    Training run;
    run.world = 2;
    run.options.stage = stage_;
    run.options.unit_bytes = Bytes(0);
    const Outcome plain = train_plainly(run);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step < run.steps; ++step) {
        const at::Tensor x = normal_batch({7, 13}, step, ranks.rank.value());
        const at::Tensor hidden = checkpoint(
            [&](const std::vector<at::Tensor>& inputs) { return body(model, inputs[0], 0); }, {x});
        layer(model, 2, hidden).square().mean().backward();
        for (const auto& [name, parameter] : model.parameters) {
          EXPECT_TRUE(parameter.grad().equal(plain.gradients.at(std::to_string(step) + "/" + name)))
              << name << " of step " << step;
        }
        engine.step();
      }
    });
  });
}

TEST_F(Checkpoint, RepeatsDropoutAndLeavesTheGeneratorAlone) {
  const TestModel model = make_model("mlp", 1);
  const at::Tensor x = normal_batch({7, 13}, 0, 0);
  const auto train = [&](bool kept) {
    torch::manual_seed(5);
    const at::Tensor input = x.clone().requires_grad_();
    const auto segment = [&](const std::vector<at::Tensor>& inputs) {
      return body(model, inputs[0], 0.5);
    };
    const at::Tensor hidden = kept ? segment({input}) : checkpoint(segment, {input});
    layer(model, 2, at::dropout(hidden, 0.5, true)).square().mean().backward();
    std::vector<at::Tensor> found = {input.grad(), at::rand({4})};
    for (const auto& [name, parameter] : model.parameters) {
      found.push_back(parameter.grad());
      parameter.mutable_grad().reset();
    }
    return found;
  };
  const auto expected = train(true);
  const auto found = train(false);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST_F(Checkpoint, KeepsNothingWithoutGradMode) {
  const TestModel model = make_model("mlp", 1);
  const at::NoGradGuard no_grad;
  const at::Tensor x = normal_batch({7, 13}, 0, 0);
  int calls = 0;
  const at::Tensor found = checkpoint(
      [&](const std::vector<at::Tensor>& inputs) {
        ++calls;
        return body(model, inputs[0], 0);
      },
      {x});
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(found.requires_grad());
  EXPECT_TRUE(found.equal(body(model, x, 0)));
}

}  // namespace
}  // namespace shardlight::engine
