// A model that changes between steps: what stays goes on as if nothing had been, what is new begins
// anew, bit for bit as by hand, at every stage.
#include <ATen/ops/full.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "chain.h"
#include "processes.h"
#include "shardlight/base/environment.h"

namespace shardlight::engine {
namespace {

using Changes = std::map<std::int64_t, std::function<void(Chain&)>>;

struct Scenario {
  const char* name;
  std::function<void(Chain&)> start;
  Changes changes;
};

void freeze_some(Chain& chain) {
  chain.train("in", false);
  chain.at("blocks.0").weight.set_requires_grad(false);
}

void tie_blocks(Chain& chain) {
  ChainLayer& layer = chain.at("blocks.1");
  chain.removed.push_back(layer);
  layer.weight = chain.at("blocks.0").weight;
}

void start_tied(Chain& chain) {
  tie_blocks(chain);
  chain.removed.clear();
}

// Every kind of change, some of them together.
Changes all_changes() {
  return {{1,
           [](Chain& chain) {
             chain.train("in", true);
             chain.train("out", false);
           }},
          {2,
           [](Chain& chain) {
             chain.add("blocks.2");
             chain.at("blocks.0").weight.set_requires_grad(true);
           }},
          {3,
           [](Chain& chain) {
             tie_blocks(chain);
             chain.train("out", true);
             chain.at("in").bias.set_requires_grad(false);
           }},
          {4,
           [](Chain& chain) {
             chain.remove("blocks.2");
             chain.renew("blocks.1");
           }},
          {5, [](Chain& /*as it is*/) {}}};
}

std::vector<Scenario> scenarios() {
  return {{"unfreezing",
           freeze_some,
           {{2,
             [](Chain& chain) {
               chain.train("in", true);
               chain.at("blocks.0").weight.set_requires_grad(true);
             }}}},
          {"freezing", {}, {{2, freeze_some}}},
          {"adding", {}, {{2, [](Chain& chain) { chain.add("blocks.2"); }}}},
          {"removing", {}, {{2, [](Chain& chain) { chain.remove("blocks.0"); }}}},
          {"replacing", {}, {{2, [](Chain& chain) { chain.renew("in"); }}}},
          {"tying", {}, {{2, tie_blocks}}},
          {"untying", start_tied, {{2, [](Chain& chain) { chain.renew("blocks.1"); }}}},
          {"there and back",
           {},
           {{1, [](Chain& chain) { chain.train("blocks.1", false); }},
            {3, [](Chain& chain) { chain.train("blocks.1", true); }}}},
          {"all", freeze_some, all_changes()}};
}

ChainRun run_of(const Scenario& scenario, at::ScalarType type, std::int64_t world) {
  ChainRun run{.type = type, .world = world, .steps = scenario.changes.size() > 2 ? 7 : 5};
  run.start = scenario.start;
  run.changes = scenario.changes;
  run.options.deadline = Seconds(60);
  return run;
}

// A unit a parameter or block, units of several, and one of all.
Bytes unit_bytes(std::int64_t turn) {
  return std::vector<Bytes>{Bytes(0), Bytes(6000), Bytes(1 << 20)}[turn % 3];
}

class RefreshOf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(RefreshOf, HasTheBitsOfTheSameByHandAtEveryStage) {
  // Each with ranks of one number, but all with the last, which has everything.
  const bool full = Environment::of_process().text("SHARDLIGHT_TEST_TIER") == "full";
  const std::vector<Scenario> all = scenarios();
  std::int64_t turn = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Scenario& scenario = all[i];
    for (const std::int64_t world : {1, 2, 3}) {
      const bool its_turn = static_cast<std::int64_t>(i) % 3 + 1 == world;
      if (!full && !its_turn && i + 1 < all.size()) continue;
      ChainRun run = run_of(scenario, GetParam(), world);
      const Outcome by_hand = train_chain_by_hand(run);
      for (run.options.stage = 0; run.options.stage <= 3; ++run.options.stage) {
        run.options.unit_bytes = unit_bytes(turn++);
        EXPECT_EQ(chain_difference(run, by_hand), "")
            << scenario.name << ", " << world << " ranks, stage " << run.options.stage;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RefreshOf, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& chosen) { return c10::toString(chosen.param); });

ChainRun with_all_changes(at::ScalarType type = at::kFloat, std::int64_t world = 2) {
  return run_of({"all", freeze_some, all_changes()}, type, world);
}

// The first steps of momentum and the schedule's place are counted on.
TEST(Refresh, GoesOnWithScheduleClippingMomentumAndLossScale) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    ChainRun run = with_all_changes(type, 3);
    run.optimizer = SGD{.lr = 0.1, .momentum = 0.9};
    run.options.clip_norm = 0.05;
    run.options.loss_scaling.initial = 1024;
    run.options.lr_schedule = [](std::int64_t step) {
      return 1 / (1.0 + static_cast<double>(step));
    };
    run.options.unit_bytes = Bytes(0);
    const Outcome by_hand = train_chain_by_hand(run);
    for (run.options.stage = 0; run.options.stage <= 3; ++run.options.stage) {
      EXPECT_EQ(chain_difference(run, by_hand), "")
          << c10::toString(type) << ", stage " << run.options.stage;
    }
  }
}

// The scale that was found, not the initial one.
TEST(Refresh, KeepsTheLossScaleAndTheStepsCount) {
  ChainRun run = with_all_changes(at::kHalf);
  run.steps = 4;
  run.options.stage = 3;
  run.options.loss_scaling = {.initial = 64, .growth_interval = 1};
  on_chain_threads(2, [&](const Ranks& ranks) {
    train_chain(run, ranks, [&](Engine& engine, Chain& chain) {
      chain.train("out", false);
      engine.refresh(chain.parameters(), chain.buffers);
      engine.backward(chain.loss(0, ranks.rank.value()));
      const StepReport report = engine.step();
      EXPECT_EQ(report.step, run.steps + 1);
      EXPECT_EQ(report.loss_scale, 64 * 16);
    });
  });
}

TEST(Refresh, WorksWithLanesSharedUnitsDelaysAndAnyOrder) {
  ChainRun run = with_all_changes(at::kBFloat16);
  const Outcome by_hand = train_chain_by_hand(run);
  const std::vector<std::function<void(Options&)>> settings = {
      [](Options& options) { options.shared_units = true; },
      [](Options& options) {
        options.prefetch_bytes = Bytes(1 << 14);
        options.bucket_bytes = Bytes(1 << 14);
        options.debug = {.poison = true, .delay_seed = 3, .delay_most = Seconds(0.0002)};
      },
      [](Options& options) {
        options.order = {.kind = comm::ReduceOrderKind::kTree};
        options.retain = false;
        options.gathered_bytes = Bytes(12000);
      }};
  for (const auto& set : settings) {
    run.options = {.stage = 3, .unit_bytes = Bytes(0), .deadline = Seconds(60)};
    set(run.options);
    EXPECT_EQ(chain_difference(run, by_hand), "");
  }
}

TEST(Refresh, TakesEditsAlong) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    ChainRun run = with_all_changes(type);
    run.changes[2] = [](Chain& chain) {
      const at::NoGradGuard no_grad;
      chain.at("in").weight.mul_(0.5);
      chain.at("blocks.0").weight.mul_(0.5);
      // The rest keeps its masters.
      chain.at("blocks.1").weight.select(0, 3).fill_(0.25);
      chain.train("out", true);
    };
    run.changes.erase(4);
    const Outcome by_hand = train_chain_by_hand(run);
    for (run.options.stage = 0; run.options.stage <= 3; ++run.options.stage) {
      run.options.unit_bytes = unit_bytes(run.options.stage);
      EXPECT_EQ(chain_difference(run, by_hand), "")
          << c10::toString(type) << ", stage " << run.options.stage;
    }
  }
}

TEST(Refresh, GivesNewBuffersRankZerosValuesAndLeavesOthers) {
  ChainRun run;
  on_chain_threads(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<double>(ranks.rank.value());
    const at::Tensor old = at::full({3}, 1 + rank), fresh = at::full({2}, 5 + rank);
    Chain chain(at::kFloat, ranks.rank.value());
    Options options{.stage = 3, .ranks = ranks};
    Engine engine(chain.parameters(), {{"old", old}}, run.optimizer, options);
    EXPECT_EQ(old[0].item<double>(), 1);
    old.fill_(7 + rank);
    for (const bool adds : {false, true}) {
      if (adds) chain.add("blocks.2");
      engine.refresh(chain.parameters(), {{"old", old}, {"fresh", fresh}});
      EXPECT_EQ(old[0].item<double>(), 7 + rank);
      EXPECT_EQ(fresh[0].item<double>(), 5);
      fresh.fill_(5 + rank);
      if (!adds) engine.refresh(chain.parameters(), {{"old", old}});
    }
  });
}

// Also by another name, it is the same parameter.
TEST(Refresh, TakesAModule) {
  const std::vector<torch::nn::Linear> layers = {torch::nn::Linear(13, 37),
                                                 torch::nn::Linear(13, 37)};
  on_chain_threads(2, [&](const Ranks& ranks) {
    const auto own = static_cast<std::size_t>(ranks.rank.value());
    Options options{.stage = 3, .ranks = ranks};
    struct Net : torch::nn::Module {
      void take(const std::string& name, const torch::nn::Linear& layer) {
        register_module(name, layer);
      }
    };
    auto first = std::make_shared<Net>(), second = std::make_shared<Net>();
    first->take("first", layers[own]);
    Engine engine(first, AdamW(), options);
    const at::Tensor& weight = layers[own]->weight;
    engine.backward(weight.square().sum());
    engine.step();
    const at::Tensor average = engine.optimizer_state(weight, "exp_avg");
    second->take("other", layers[own]);
    engine.refresh(second);
    EXPECT_EQ(engine.full_state().next()->first, "other.weight");
    EXPECT_TRUE(engine.optimizer_state(weight, "exp_avg").equal(average));
  });
}

// 64 KiB a parameter, of which a rank never held but its part.
struct Built : torch::nn::Module {
  Built() {
    for (const char* name : {"a", "b", "c"}) {
      layers.push_back(register_parameter(name, at::full({128, 128}, 0.01)));
    }
  }
  at::Tensor loss(std::int64_t rank) const {
    at::Tensor x = at::full({2, 128}, static_cast<double>(rank + 1));
    for (const at::Tensor& layer : layers) x = at::tanh(x.mm(layer));
    return x.square().mean();
  }

  std::vector<at::Tensor> layers;
};

TEST(Refresh, TakesAModelThatWasBuilt) {
  for (const int stage : {1, 3}) {
    on_chain_threads(2, [&](const Ranks& ranks) {
      std::vector<at::Tensor> trained;
      for (const bool within : {true, false}) {
        Options options{.stage = stage, .unit_bytes = Bytes(0), .ranks = ranks};
        std::shared_ptr<Built> model;
        std::optional<Engine> engine;
        if (within) {
          engine.emplace(SGD{.lr = 0.5, .momentum = 0.9}, options);
          model = engine->build([] { return std::make_shared<Built>(); });
        } else {
          model = std::make_shared<Built>();
          engine.emplace(model, SGD{.lr = 0.5, .momentum = 0.9}, options);
        }
        for (int step = 0; step < 3; ++step) {
          if (step == 1) model->layers[0].set_requires_grad(false);
          if (step == 2) model->layers[0].set_requires_grad(true);
          if (step > 0) engine->refresh(model);
          engine->backward(model->loss(ranks.rank.value()));
          engine->step();
        }
        engine->close();
        for (std::size_t i = 0; i < model->layers.size(); ++i) {
          if (within) trained.push_back(model->layers[i].detach().clone());
          EXPECT_TRUE(trained[i].equal(model->layers[i])) << "stage " << stage << ", layer " << i;
        }
      }
    });
  }
}

// Dropout goes on where the step left it, whatever was drawn to make new layers.
TEST(Refresh, LeavesTheSeedsStreamWhereTheStepLeftIt) {
  Training run;
  run.model = "dropout";
  run.options.seed = 5;
  const auto losses_of = [&](bool refreshes) {
    std::vector<double> losses;
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      for (std::int64_t step = 0; step < 4; ++step) {
        if (refreshes && step == 2) {
          const torch::nn::Linear draws(3, 4);
          auto renamed = model.parameters;
          for (auto& [name, parameter] : renamed) name += "_now";
          engine.refresh(renamed, model.buffers);
        }
        const at::Tensor loss = model.loss(step, 0);
        losses.push_back(loss.item<double>());
        engine.backward(loss);
        engine.step();
      }
    });
    return losses;
  };
  EXPECT_EQ(losses_of(true), losses_of(false));
}

TEST(RefreshOfProcesses, HasTheBitsOfTheSameByHand) {
  ASSERT_EQ(threads_of_process(), 1) << "no fork is safe any more";
  ChainRun run = with_all_changes(at::kBFloat16);
  run.options.unit_bytes = Bytes(0);
  const Outcome by_hand = train_chain_by_hand(run);
  const auto said = run_processes(2, [&](std::int64_t rank) {
    std::string wrong;
    for (int stage = 0; stage <= 3; ++stage) {
      run.options.stage = stage;
      const std::string job = job_name("refresh" + std::to_string(stage));
      wrong += difference_of_values(train_chain(run, processes(job, rank, 2)), by_hand);
    }
    return wrong;
  });
  for (const std::string& text : said) EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace shardlight::engine
