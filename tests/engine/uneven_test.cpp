// Ranks with different numbers of batches (join), and backward passes that are no micro-steps
// (no_sync), against plain loops.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include "each_stage.h"
#include "plain_twin.h"

namespace shardlight::engine {
namespace {

using testing::HasSubstr;
using Values = std::map<std::string, at::Tensor>;

class Uneven : public EachStage {
 protected:
  Training training(std::int64_t accumulation) const {
    Training run;
    run.world = 3;
    run.optimizer = SGD{.lr = 0.5};
    run.options.stage = stage_;
    run.options.accumulation = accumulation;
    run.options.unit_bytes = Bytes(0);
    run.options.deadline = Seconds(20);
    return run;
  }
};

// Plain descent: `batches` are added in this order and divided by `parts`.
void descend(const TestModel& model, std::int64_t step, const std::vector<std::int64_t>& batches,
             double parts) {
  Values sums;
  for (const std::int64_t batch : batches) {
    model.loss(step, batch).backward();
    for (const auto& [name, parameter] : model.parameters) {
      const auto [sum, is_new] = sums.try_emplace(name, parameter.grad());
      if (!is_new) sum->second = sum->second + parameter.grad();
      parameter.mutable_grad().reset();
    }
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : model.parameters) {
    parameter.sub_(sums.at(name) * (1 / parts), 0.5);
  }
}

void expect_values(const TestModel& model, const TestModel& expected) {
  for (std::size_t i = 0; i < expected.parameters.size(); ++i) {
    const auto& [name, value] = expected.parameters[i];
    EXPECT_TRUE(model.parameters[i].second.equal(value)) << name;
  }
}

// Rank r has r + 1 batches.
TEST_F(Uneven, RanksThatJoinTakePartWithoutGradients) {
  each_stage([&] {
    const Training run = training(1);
    const TestModel expected = model_of_rank(run, 0);
    descend(expected, 0, {0, 1, 2}, 3);
    descend(expected, 1, {1, 2}, 3);
    descend(expected, 2, {2}, 3);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      const std::int64_t rank = ranks.rank.value();
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step <= rank; ++step) {
        engine.backward(model.loss(step, rank));
        engine.step();
      }
      EXPECT_EQ(engine.join(), 2 - rank);
      // All are there again, and can go on.
      engine.backward(model.loss(3, rank));
      engine.step();
      engine.close();
      if (rank > 0) return;
      descend(expected, 3, {0, 1, 2}, 3);
      expect_values(model, expected);
    });
  });
}

// Rank 2 has a batch more than a multiple of the accumulation: its step is taken all the same.
TEST_F(Uneven, ARankMayJoinWithinAStep) {
  each_stage([&] {
    Training run = training(2);
    run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
    const TestModel expected = model_of_rank(run, 0);
    descend(expected, 0, {0, 2, 4, 1, 3, 5}, 6);
    descend(expected, 1, {4}, 6);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      const std::int64_t rank = ranks.rank.value();
      Engine engine = make_engine(run, ranks, model);
      for (const std::int64_t micro : {0, 1}) engine.backward(model.loss(0, 2 * rank + micro));
      engine.step();
      if (rank == 2) engine.backward(model.loss(1, 4));
      EXPECT_EQ(engine.join(), 1);
      engine.close();
      if (rank == 0) expect_values(model, expected);
    });
  });
}

// What DistributedDataParallel's users expect: gradients of all of them, divided by the ranks.
TEST_F(Uneven, PassesWithoutSyncAreAddedToTheNext) {
  each_stage([&] {
    const Training run = training(1);
    const TestModel expected = model_of_rank(run, 0);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      const std::int64_t rank = ranks.rank.value();
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step < 2; ++step) {
        {
          const auto scope = engine.no_sync();
          { const auto inner = engine.no_sync(); }
          engine.backward(model.loss(step, 2 * rank));
        }
        engine.backward(model.loss(step, 2 * rank + 1));
        engine.step();
      }
      // Where every rank keeps gradients of its own, nothing is exchanged for the first pass.
      const bool own = stage_ < 2;
      const std::int64_t model_bytes = engine.traffic().planned.reduced.value();
      EXPECT_EQ(engine.traffic().reduce.calls,
                static_cast<std::int64_t>(model.parameters.size()) * (own ? 2 : 4));
      EXPECT_GT(model_bytes, 0);
      engine.close();
      if (rank > 0) return;
      for (std::int64_t step = 0; step < 2; ++step) {
        const std::vector<std::int64_t> by_rank = {0, 1, 2, 3, 4, 5};
        descend(expected, step, by_rank, 3);
      }
      for (std::size_t i = 0; i < expected.parameters.size(); ++i) {
        EXPECT_TRUE(model.parameters[i].second.allclose(expected.parameters[i].second, 1e-5, 1e-7));
      }
    });
  });
}

TEST_F(Uneven, PassesWithoutSyncAreRefusedWhereTheTreeCountsThem) {
  each_stage([&] {
    Training run = training(1);
    run.world = 1;
    run.options.reproducible = true;
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      try {
        const auto scope = engine.no_sync();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("no_sync"));
      }
    });
  });
}

}  // namespace
}  // namespace shardlight::engine
