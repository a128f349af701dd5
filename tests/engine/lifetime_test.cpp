// The life of an engine and its model beside each other: reading between calls, closing, ending in
// any order, again and again, several at once.
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "each_stage.h"
#include "plain_twin.h"
#include "tests/sanitizers.h"

namespace shardlight::engine {
namespace {

Training training(int stage, std::int64_t world = 2) {
  Training run;
  run.world = world;
  run.options.stage = stage;
  run.options.unit_bytes = Bytes(0);
  run.options.deadline = Seconds(60);
  return run;
}

using Values = std::map<std::string, at::Tensor>;

Values values_of(const TestModel& model) {
  Values values;
  for (const auto& [name, parameter] : model.parameters) values[name] = parameter.detach().clone();
  return values;
}

void expect_equal(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const double most = found.at(name).sub(value).abs().max().item<double>();
    EXPECT_TRUE(found.at(name).equal(value)) << name << " by up to " << most;
  }
}

void train_steps(Engine& engine, const Training& run, const TestModel& model, std::int64_t first,
                 std::int64_t end) {
  for (std::int64_t step = first; step < end; ++step) {
    accumulate(engine, run, model, step);
    engine.step();
  }
}

// A step of plain gradient descent by hand, which must find all that torch expects.
void expect_usable(const TestModel& model) {
  const double before = model.loss(0, 0).item<double>();
  model.loss(0, 0).backward();
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : model.parameters) {
    EXPECT_TRUE(parameter.is_leaf());
    if (!parameter.requires_grad()) continue;
    ASSERT_TRUE(parameter.grad().defined()) << name;
    parameter.sub_(parameter.grad(), 1e-2);
    parameter.mutable_grad().reset();
  }
  EXPECT_LT(model.loss(0, 0).item<double>(), before);
}

class Lifetime : public EachStage {
 protected:
  Training run() const { return training(stage_); }
};

TEST_F(Lifetime, RanksMakeEnginesInTurn) {
  const Training run = training(3);
  on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
    for (int engines = 0; engines < 2; ++engines) {
      Engine engine = make_engine(run, ranks, model);
      accumulate(engine, run, model, 0);
      EXPECT_EQ(engine.step().step, 1);
    }
  });
}

TEST_F(Lifetime, ClosingLeavesTheTrainedModelWhole) {
  each_stage([&] {
    for (const char* name : {"mlp", "tied", "frozen", "sizes"}) {
      Training training = run();
      training.model = name;
      const Outcome expected = train_plainly(training);
      on_threads(training, [&](const Ranks& ranks, const TestModel& model) {
        std::vector<bool> trainable;
        for (const auto& [_, parameter] : model.parameters) {
          trainable.push_back(parameter.requires_grad());
        }
        Engine engine = make_engine(training, ranks, model);
        train_steps(engine, training, model, 0, training.steps);
        engine.close();
        for (std::size_t i = 0; i < trainable.size(); ++i) {
          EXPECT_EQ(model.parameters[i].second.requires_grad(), trainable[i]);
        }
        for (const auto& [parameter, value] : expected.parameters) {
          const auto found = values_of(model);
          EXPECT_TRUE(found.at(parameter).equal(value)) << name << " " << parameter;
        }
        if (training.model == "mlp") expect_usable(model);
      });
    }
  });
}

TEST_F(Lifetime, ClosingLeavesNothingOnTheAccount) {
  each_stage([&] {
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run(), ranks, model);
      train_steps(engine, run(), model, 0, 2);
      engine.close();
      EXPECT_EQ(engine.memory().total.now.value(), 0);
    });
  });
}

TEST_F(Lifetime, AScopeMayOutliveItsEngine) {
  each_stage([&] {
    const Outcome expected = train_plainly(run());
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      std::optional<Engine::Gathered> scope;
      {
        Engine engine = make_engine(run(), ranks, model);
        train_steps(engine, run(), model, 0, run().steps);
        scope.emplace(engine.gathered({model.parameters.front().second}));
      }
      scope.reset();
      expect_equal(values_of(model), expected.parameters);
    });
  });
}

TEST_F(Lifetime, DestructionIsAClose) {
  each_stage([&] {
    const Outcome expected = train_plainly(run());
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      {
        Engine engine = make_engine(run(), ranks, model);
        train_steps(engine, run(), model, 0, run().steps);
      }
      expect_equal(values_of(model), expected.parameters);
      expect_usable(model);
    });
  });
}

TEST_F(Lifetime, TheModelMayEndFirst) {
  each_stage([&] {
    on_threads(run(), [&](const Ranks& ranks, const TestModel& /*kept by the test*/) {
      std::optional<Engine> engine;
      {
        const TestModel gone =
            make_model("mlp", 3 + static_cast<std::uint64_t>(ranks.rank.value()));
        engine.emplace(make_engine(run(), ranks, gone));
        train_steps(*engine, run(), gone, 0, 2);
      }
      EXPECT_EQ(engine->world(), 2);
      engine->close();
      engine.reset();
    });
  });
}

TEST_F(Lifetime, AMovedEngineGoesOn) {
  each_stage([&] {
    const Outcome expected = train_plainly(run());
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      Engine first = make_engine(run(), ranks, model);
      train_steps(first, run(), model, 0, 1);
      Engine second = std::move(first);
      train_steps(second, run(), model, 1, run().steps);
      second.close();
      expect_equal(values_of(model), expected.parameters);
    });
  });
}

// The optimizer starts anew, the parameters do not.
TEST_F(Lifetime, ASecondEngineTakesOverWhereTheFirstClosed) {
  each_stage([&] {
    const auto train_twice = [](const Training& training) {
      Values values;
      const auto again = ranks_as_threads(training.world);
      on_threads(training, [&](const Ranks& ranks, const TestModel& model) {
        const Ranks& second_ranks = again.at(static_cast<std::size_t>(ranks.rank.value()));
        Engine first = make_engine(training, ranks, model);
        train_steps(first, training, model, 0, 2);
        first.close();
        const Values between = values_of(model);
        Engine second = make_engine(training, second_ranks, model);
        for (const auto& [name, parameter] : model.parameters) {
          const at::NoGradGuard no_grad;
          EXPECT_TRUE(parameter.equal(between.at(name))) << name;
        }
        train_steps(second, training, model, 2, 4);
        second.close();
        if (ranks.rank == Rank(0)) values = values_of(model);
      });
      return values;
    };
    expect_equal(train_twice(run()), train_twice(training(0)));
  });
}

TEST_F(Lifetime, EnginesOfDifferentModelsWorkAtOnce) {
  each_stage([&] {
    Training other = run();
    other.model = "attention";
    const Outcome expected = train_plainly(run()), expected_other = train_plainly(other);
    const auto more = ranks_as_threads(2);
    // Here, since torch's generator belongs to the process.
    const std::vector<TestModel> second_models = {model_of_rank(other, 0), model_of_rank(other, 1)};
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      const auto own = static_cast<std::size_t>(ranks.rank.value());
      const TestModel& second_model = second_models.at(own);
      Engine first = make_engine(run(), ranks, model);
      Engine second = make_engine(other, more.at(own), second_model);
      for (std::int64_t step = 0; step < run().steps; ++step) {
        accumulate(first, run(), model, step);
        accumulate(second, other, second_model, step);
        second.step();
        first.step();
      }
      first.close();
      second.close();
      expect_equal(values_of(model), expected.parameters);
      for (const auto& [name, value] : expected_other.parameters) {
        EXPECT_TRUE(values_of(second_model).at(name).equal(value)) << name;
      }
    });
  });
}

// Evaluation and more forward passes at any time: they read what the last step left, and leave no
// trace in what comes after.
TEST_F(Lifetime, ForwardAndEvaluationAtAnyTimeReadTheRightValues) {
  each_stage([&] {
    const Outcome expected = train_plainly(run());
    // Losses of micro-batch 0 before each step, by a run that does nothing else.
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      const auto own = static_cast<std::size_t>(ranks.rank.value());
      const auto evaluated = [&](std::int64_t step) {
        const at::NoGradGuard no_grad;
        return model.loss(step, ranks.rank.value()).item<double>();
      };
      Engine engine = make_engine(run(), ranks, model);
      for (std::int64_t step = 0; step < run().steps; ++step) {
        const double before = expected.losses.at(own).at(static_cast<std::size_t>(step));
        EXPECT_EQ(evaluated(step), before) << "before forward";
        accumulate(engine, run(), model, step);
        EXPECT_EQ(evaluated(step), before) << "between backward and step";
        // With a graph that nobody uses.
        EXPECT_EQ(model.loss(step, ranks.rank.value()).item<double>(), before);
        engine.step();
        EXPECT_NE(evaluated(step), before) << "after step";
      }
      engine.close();
      expect_equal(values_of(model), expected.parameters);
    });
  });
}

TEST_F(Lifetime, TorchsOwnBackwardIsAsGood) {
  each_stage([&] {
    const Outcome expected = train_plainly(run());
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run(), ranks, model);
      for (std::int64_t step = 0; step < run().steps; ++step) {
        model.loss(step, ranks.rank.value()).backward();
        engine.step();
      }
      engine.close();
      expect_equal(values_of(model), expected.parameters);
    });
  });
}

// A graph from before the step is as stale for torch with an engine as without.
TEST_F(Lifetime, GraphsFromBeforeAStepAreRefusedByTorch) {
  each_stage([&] {
    on_threads(run(), [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run(), ranks, model);
      const at::Tensor stale = model.loss(1, ranks.rank.value());
      accumulate(engine, run(), model, 0);
      engine.step();
      EXPECT_THROW(stale.backward(), std::exception);
    });
  });
}

std::int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident;
}

// What 40 engines leave behind is less than one of them holds.
TEST_F(Lifetime, ManyEnginesOneAfterAnotherLeaveNothingBehind) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  each_stage([&] {
    Training training = run();
    training.model = "even";
    std::int64_t pages = 0, held = 0;
    for (int engines = 0; engines < 50; ++engines) {
      if (engines == 10) pages = resident_pages();
      on_threads(training, [&](const Ranks& ranks, const TestModel& model) {
        Engine engine = make_engine(training, ranks, model);
        train_steps(engine, training, model, 0, 1);
        if (ranks.rank == Rank(0)) held = engine.memory().total.now.value();
        engine.close();
      });
    }
    EXPECT_LT((resident_pages() - pages) * ::sysconf(_SC_PAGESIZE), held);
  });
}

}  // namespace
}  // namespace shardlight::engine
