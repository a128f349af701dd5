#include "shardlight/model/gpt.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "shardlight/plan/hf_config.h"

namespace shardlight::model {
namespace {

constexpr GptOptions kTiny{.vocabulary = 17, .positions = 12, .hidden = 8, .layers = 2, .heads = 2};

GptOptions untied() {
  GptOptions options = kTiny;
  options.tied = false;
  return options;
}

at::Tensor tokens(std::int64_t batch, std::int64_t length) {
  return at::randint(17, {batch, length}, at::kLong);
}

// What transformers would register: names, order, shapes. The plan's tests compare that table with
// transformers itself.
TEST(Gpt, HasTheTableOfGpt2) {
  for (const GptOptions& options : {kTiny, untied()}) {
    const auto planned = plan::model_from_hf_config(
        std::string(R"({"model_type": "gpt2", "vocab_size": 17, "n_positions": 12, "n_embd": 8,)") +
            R"("n_layer": 2, "n_head": 2, "tie_word_embeddings": )" +
            (options.tied ? "true}" : "false}"),
        "tiny");
    ASSERT_TRUE(planned) << planned.error().message();
    const auto& rows = planned->table->parameters();
    const Gpt model(options, 1);
    const auto registered = model.named_parameters();
    ASSERT_EQ(registered.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(registered[i].key(), rows[i].name());
      EXPECT_EQ(registered[i].value().sizes().vec(), rows[i].shape);
      EXPECT_TRUE(registered[i].value().requires_grad());
    }
  }
}

TEST(Gpt, StartsFromItsSeedAlone) {
  const Gpt one(kTiny, 5), same(kTiny, 5), other(kTiny, 6);
  bool all_equal = true;
  for (const auto& item : one.named_parameters()) {
    EXPECT_TRUE(at::equal(item.value(), same.named_parameters()[item.key()])) << item.key();
    all_equal = all_equal && at::equal(item.value(), other.named_parameters()[item.key()]);
  }
  EXPECT_FALSE(all_equal);
}

TEST(Gpt, BeginsByKnowingNothing) {
  Gpt model(kTiny, 1);
  EXPECT_NEAR(model.loss(tokens(8, 13)).item<double>(), std::log(17.0), 0.05);
}

TEST(Gpt, DoesNotSeeWhatComesAfter) {
  Gpt model(kTiny, 1);
  const at::NoGradGuard no_gradients;
  const at::Tensor text = tokens(1, 12);
  at::Tensor changed = text.clone();
  changed.select(1, 7).fill_((text.select(1, 7).item<std::int64_t>() + 1) % 17);
  const at::Tensor before = model.forward(text), after = model.forward(changed);
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 7), after.narrow(1, 0, 7)));
  EXPECT_FALSE(at::equal(before.narrow(1, 7, 1), after.narrow(1, 7, 1)));
}

TEST(Gpt, GivesEveryParameterAGradient) {
  GptOptions options = untied();
  options.dropout = 0.1;
  Gpt model(options, 1);
  model.loss(tokens(4, 13)).backward();
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(std::isfinite(item.value().grad().sum().item<double>())) << item.key();
  }
}

// A few steps of plain gradient descent on one repeated sentence.
TEST(Gpt, LearnsASentence) {
  Gpt model(kTiny, 1);
  const at::Tensor text = tokens(1, 13);
  const double first = model.loss(text).item<double>();
  for (int step = 0; step < 60; ++step) {
    model.zero_grad();
    model.loss(text).backward();
    const at::NoGradGuard no_gradients;
    for (at::Tensor& parameter : model.parameters()) parameter.sub_(parameter.grad(), 0.5);
  }
  EXPECT_LT(model.loss(text).item<double>(), first / 2);
}

TEST(Generate, IsAFunctionOfItsSeed) {
  Gpt model(kTiny, 1);
  const GenerateOptions options{.tokens = 30, .temperature = 1, .seed = 7};
  const auto text = generate(model, {3}, options);
  ASSERT_EQ(text.size(), 30U);  // beyond the positions, too
  for (const std::int64_t token : text) EXPECT_TRUE(token >= 0 && token < 17);
  EXPECT_EQ(generate(model, {3}, options), text);
  EXPECT_NE(generate(model, {3}, {.tokens = 30, .temperature = 1, .seed = 8}), text);
  EXPECT_TRUE(model.is_training());
}

TEST(Generate, TakesTheLikeliestAtTemperatureZero) {
  Gpt model(kTiny, 1);
  const auto text = generate(model, {3, 4}, {.tokens = 2, .temperature = 0, .seed = 1});
  EXPECT_EQ(generate(model, {3, 4}, {.tokens = 2, .temperature = 0, .seed = 2}), text);
  const at::Tensor seen = at::tensor({3, 4}, at::kLong).unsqueeze(0);
  EXPECT_EQ(text[0], model.forward(seen)[0][1].argmax().item<std::int64_t>());
}

}  // namespace
}  // namespace shardlight::model
