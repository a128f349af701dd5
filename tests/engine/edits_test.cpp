// What is written into parameters besides the optimizer's step: kept at every stage, or refused.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <exception>
#include <thread>

#include "models.h"
#include "shardlight/engine/engine.h"

namespace shardlight::engine {
namespace {

using Edit = std::function<void(Engine&, const TestModel&)>;

struct Setting {
  int stage = 0;
  bool shared_units = false;
};

// Two ranks train three steps; `edit` runs after each. Rank 0's parameters at the end.
std::vector<at::Tensor> train_with(const Setting& setting, const Edit& edit) {
  constexpr std::size_t kWorld = 2;
  const std::vector<Ranks> ranks = ranks_as_threads(kWorld);
  std::vector<TestModel> models;
  for (std::size_t rank = 0; rank < kWorld; ++rank) models.push_back(make_model("mlp", rank + 1));
  std::vector<at::Tensor> values;
  std::vector<std::exception_ptr> errors(kWorld);
  const auto body = [&](std::size_t rank) {
    at::set_num_threads(1);
    const TestModel& model = models[rank];
    Options options{.stage = setting.stage, .shared_units = setting.shared_units};
    options.unit_bytes = Bytes(2048);
    options.deadline = Seconds(30);
    options.ranks = ranks[rank];
    Engine engine(model.parameters, model.buffers, AdamW{.lr = 1e-2}, options);
    for (std::int64_t step = 0; step < 3; ++step) {
      engine.backward(model.loss(step, static_cast<std::int64_t>(rank)));
      engine.step();
      edit(engine, model);
    }
    engine.close();
    if (rank > 0) return;
    for (const auto& [name, parameter] : model.parameters) values.push_back(parameter.detach());
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return values;
}

// As it is without an engine.
std::vector<at::Tensor> reference(const Edit& edit) { return train_with({.stage = 0}, edit); }

class Edits : public ::testing::TestWithParam<Setting> {
 protected:
  void expect_same(const Edit& edit) const {
    const auto expected = reference(edit);
    const auto found = train_with(GetParam(), edit);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
  }
};

TEST_P(Edits, ByOperatorsAreKept) {
  const Edit halve = [](Engine& /*engine*/, const TestModel& model) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : model.parameters) parameter.detach().mul_(0.5);
  };
  expect_same(halve);
  // They count: without them the model is another one.
  const auto edited = train_with(GetParam(), halve);
  const auto plain = train_with(GetParam(), [](Engine&, const TestModel&) {});
  EXPECT_FALSE(edited[0].equal(plain[0]));
}

TEST_P(Edits, ThroughMemoryInAWritingScopeAreKept) {
  expect_same([](Engine& engine, const TestModel& model) {
    const at::Tensor& parameter = model.parameters[2].second;
    const auto scope = engine.gathered({parameter}, Engine::Access::kWrite);
    auto* const data = static_cast<float*>(parameter.mutable_data_ptr());
    for (std::int64_t i = 0; i < parameter.numel(); ++i) data[i] *= 0.25F;
  });
}

TEST_P(Edits, OfSomeRanksOnlyAreRefusedByName) {
  const Edit on_rank_one = [](Engine& engine, const TestModel& model) {
    if (engine.rank() != Rank(1)) return;
    const at::NoGradGuard no_grad;
    model.parameters[2].second.detach().add_(1);
  };
  try {
    train_with(GetParam(), on_rank_one);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.field(), "parameter second.weight") << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Edits,
                         ::testing::Values(Setting{0}, Setting{1}, Setting{2}, Setting{3},
                                           Setting{3, true}),
                         [](const auto& chosen) {
                           return "stage" + std::to_string(chosen.param.stage) +
                                  (chosen.param.shared_units ? "shared" : "");
                         });

}  // namespace
}  // namespace shardlight::engine
