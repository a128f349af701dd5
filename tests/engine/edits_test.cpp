// What is written into parameters besides the optimizer's step: kept at every stage, or refused.
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "plain_twin.h"

namespace shardlight::engine {
namespace {

using Values = std::map<std::string, at::Tensor>;

struct Setting {
  int stage = 0;
  bool shared_units = false;
};

class Edits : public ::testing::TestWithParam<Setting> {
 protected:
  static Training training() {
    Training run;
    run.world = 2;
    run.options.stage = GetParam().stage;
    run.options.shared_units = GetParam().shared_units;
    run.options.unit_bytes = Bytes(2048);
    run.options.deadline = Seconds(30);
    return run;
  }

  // Two ranks train three steps; `edit` runs after each. Rank 0's parameters at the end.
  using Edit = std::function<void(Engine&, const TestModel&)>;
  static Values train_with(const Edit& edit) {
    const Training run = training();
    Values values;
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step < run.steps; ++step) {
        accumulate(engine, run, model, step);
        engine.step();
        edit(engine, model);
      }
      engine.close();
      if (ranks.rank > Rank(0)) return;
      for (const auto& [name, parameter] : model.parameters) values[name] = parameter.detach();
    });
    return values;
  }

  static void expect_as_without_an_engine(const Values& found, const TwinEdit& edit) {
    const Outcome expected = train_plainly(training(), Clipping::kAsTheEngine, edit);
    ASSERT_EQ(found.size(), expected.parameters.size());
    for (const auto& [name, value] : expected.parameters) {
      EXPECT_TRUE(found.at(name).equal(value)) << name;
    }
  }
};

TEST_P(Edits, ByOperatorsAreKept) {
  const auto halve = [](const TestModel& model) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : model.parameters) parameter.detach().mul_(0.5);
  };
  expect_as_without_an_engine(
      train_with([&](Engine& /*engine*/, const TestModel& model) { halve(model); }), halve);
}

TEST_P(Edits, ThroughMemoryInAWritingScopeAreKept) {
  const auto quarter = [](const TestModel& model) {
    const at::Tensor& parameter = model.parameters[2].second;
    auto* const data = static_cast<float*>(parameter.mutable_data_ptr());
    for (std::int64_t i = 0; i < parameter.numel(); ++i) data[i] *= 0.25F;
  };
  const Values found = train_with([&](Engine& engine, const TestModel& model) {
    const auto scope = engine.gathered({model.parameters[2].second}, Engine::Access::kWrite);
    quarter(model);
  });
  expect_as_without_an_engine(found, quarter);
}

TEST_P(Edits, OfSomeRanksOnlyAreRefusedByName) {
  try {
    train_with([](Engine& engine, const TestModel& model) {
      if (engine.rank() != Rank(1)) return;
      const at::NoGradGuard no_grad;
      model.parameters[2].second.detach().add_(1);
    });
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
