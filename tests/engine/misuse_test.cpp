// What is used wrongly is an error that names what and why, never a crash or another number.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <limits>

#include "each_stage.h"
#include "training.h"

namespace shardlight::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Training training(int stage) {
  Training run;
  run.world = 2;
  run.options.stage = stage;
  run.options.unit_bytes = Bytes(0);
  run.options.deadline = Seconds(20);
  return run;
}

class Misuse : public EachStage {
 protected:
  // On every rank of two, at this stage.
  void on_engines(const std::function<void(Engine&, const TestModel&)>& body,
                  std::int64_t accumulation = 1) const {
    Training run = training(stage_);
    run.options.accumulation = accumulation;
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      body(engine, model);
    });
  }
};

TEST_F(Misuse, SteppingWithinAScope) {
  each_stage([&] {
    on_engines([](Engine& engine, const TestModel& model) {
      engine.backward(model.loss(0, 0));
      {
        const auto scope = engine.gathered({model.parameters[0].second});
        EXPECT_THAT(thrown_by([&] { engine.step(); }), HasSubstr("gathered"));
      }
      engine.step();
    });
  });
}

TEST_F(Misuse, SteppingTooEarly) {
  each_stage([&] {
    on_engines(
        [](Engine& engine, const TestModel& model) {
          EXPECT_THAT(thrown_by([&] { engine.step(); }),
                      AllOf(HasSubstr("accumulation"), HasSubstr("there were 0")));
          engine.backward(model.loss(0, 0));
          EXPECT_THAT(thrown_by([&] { engine.step(); }), HasSubstr("there were 1"));
          engine.backward(model.loss(0, 1));
          engine.step();
        },
        2);
  });
}

TEST_F(Misuse, GoingBackwardTooOften) {
  each_stage([&] {
    on_engines([](Engine& engine, const TestModel& model) {
      engine.backward(model.loss(0, 0));
      EXPECT_THAT(thrown_by([&] { engine.backward(model.loss(0, 0)); }), HasSubstr("accumulation"));
    });
  });
}

TEST_F(Misuse, TensorsThatAreNoParametersOfTheEngine) {
  each_stage([&] {
    on_engines([](Engine& engine, const TestModel& model) {
      const TestModel other = make_model("mlp", 1);
      Training alone = training(0);
      alone.world = 1;
      Engine others = make_engine(alone, ranks_as_threads(1).front(), other);
      for (const at::Tensor& tensor :
           {other.parameters.front().second, at::zeros({3}), at::Tensor()}) {
        const std::string allowed = "a parameter of this engine";
        EXPECT_THAT(thrown_by([&] { engine.gathered({tensor}); }), HasSubstr(allowed));
        EXPECT_THAT(thrown_by([&] { engine.gradient(tensor); }), HasSubstr(allowed));
        EXPECT_THAT(thrown_by([&] { engine.optimizer_state(tensor, "exp_avg"); }),
                    HasSubstr(allowed));
      }
      const at::Tensor& own = model.parameters.front().second;
      EXPECT_THAT(thrown_by([&] { engine.optimizer_state(own, "momentum"); }),
                  AllOf(HasSubstr("momentum"), HasSubstr("exp_avg_sq")));
      EXPECT_THAT(thrown_by([&] { engine.gradient(own); }), HasSubstr(model.parameters[0].first));
    });
  });
}

TEST_F(Misuse, AParameterInTwoEngines) {
  each_stage([&] {
    on_engines([](Engine& /*engine*/, const TestModel& model) {
      Training alone = training(0);
      alone.world = 1;
      EXPECT_THAT(
          thrown_by([&] { make_engine(alone, ranks_as_threads(1).front(), model); }),
          AllOf(HasSubstr("parameter " + model.parameters[0].first), HasSubstr("another engine")));
    });
  });
}

// After a step values are away at stage 3 and out of date at stages 1 and 2.
TEST_F(Misuse, RawAccessToWhatIsNotHere) {
  each_stage([&] {
    on_engines([&](Engine& engine, const TestModel& model) {
      engine.backward(model.loss(0, 0));
      engine.step();
      const auto& [name, parameter] = model.parameters.at(2);
      if (stage_ == 0) {
        EXPECT_NE(parameter.const_data_ptr(), nullptr);
        return;
      }
      const auto says = AllOf(HasSubstr("parameter " + name), HasSubstr("not gathered"));
      EXPECT_THAT(thrown_by([&] { parameter.data_ptr(); }), says);
      EXPECT_THAT(thrown_by([&] { parameter.const_data_ptr<float>(); }), says);
      EXPECT_THAT(thrown_by([&] { parameter.view({-1}).narrow(0, 1, 2).data_ptr(); }), says);
      const auto scope = engine.gathered({parameter});
      EXPECT_NE(parameter.const_data_ptr(), nullptr);
    });
  });
}

// At stage 3 an operator's unit is still here when it ends, in memory that is another unit's soon.
TEST_F(Misuse, RawAccessToWhatIsStillHere) {
  each_stage([&] {
    on_engines([&](Engine& engine, const TestModel& model) {
      const auto& [name, parameter] = model.parameters.at(2);
      const at::NoGradGuard no_grad;
      const auto says = AllOf(HasSubstr("parameter " + name), HasSubstr("not gathered"));
      const auto expect_shut = [&, p = parameter] {
        if (stage_ < 3) {
          EXPECT_NE(p.const_data_ptr(), nullptr);
        } else {
          EXPECT_THAT(thrown_by([&] { p.data_ptr(); }), says);
          EXPECT_THAT(thrown_by([&] { p.detach().const_data_ptr(); }), says);
        }
      };
      const double sum = parameter.sum().item<double>();
      expect_shut();
      {
        const auto scope = engine.gathered({parameter});
        const auto inner = engine.gathered({parameter});
        EXPECT_EQ(parameter.sum().item<double>(), sum);
        EXPECT_NE(parameter.const_data_ptr(), nullptr);
      }
      expect_shut();
      EXPECT_EQ(parameter.sum().item<double>(), sum);
    });
  });
}

TEST_F(Misuse, ReplacingWhatTheEngineHolds) {
  each_stage([&] {
    for (const bool before_forward : {true, false}) {
      on_engines([&](Engine& engine, const TestModel& model) {
        const auto& [name, parameter] = model.parameters.at(2);
        const auto replace = [&, p = parameter] { p.set_data(at::ones(p.sizes())); };
        const std::string said = thrown_by([&, n = name] {
          if (before_forward) replace();
          engine.backward(model.loss(0, 0));
          if (!before_forward) replace();
          engine.step();
        });
        EXPECT_THAT(said, HasSubstr("parameter " + name));
      });
    }
  });
}

// The ranks that are there learn who is not.
TEST_F(Misuse, ARankThatDoesNotComeToTheStep) {
  each_stage([&] {
    Training run = training(stage_);
    run.options.deadline = Seconds(0.3);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Engine engine = make_engine(run, ranks, model);
      if (ranks.rank == Rank(1)) return;
      EXPECT_THAT(thrown_by([&] {
                    engine.backward(model.loss(0, 0));
                    engine.step();
                  }),
                  AllOf(HasSubstr("rank 0, "), HasSubstr("rank 1")));
    });
  });
}

TEST_F(Misuse, ChangedShapesAndUnfrozenParametersAreNamed) {
  each_stage([&] {
    Training run = training(stage_);
    run.world = 1;
    run.model = "frozen";
    on_threads(run, [&](const Ranks& /*ranks*/, const TestModel& model) {
      const auto engine_of = [&] { return make_engine(run, ranks_as_threads(1).front(), model); };
      for (const auto& [name, parameter] : model.parameters) {
        if (parameter.requires_grad()) continue;
        Engine engine = engine_of();
        parameter.requires_grad_();
        engine.backward(model.loss(0, 0));
        EXPECT_THAT(thrown_by([&] { engine.step(); }),
                    AllOf(HasSubstr(name), HasSubstr("unfrozen"), HasSubstr("refresh")));
        parameter.requires_grad_(false);
        break;
      }
      const auto& [name, parameter] = model.parameters.front();
      Engine engine = engine_of();
      engine.backward(model.loss(0, 0));
      parameter.unsafeGetTensorImpl()->set_sizes_contiguous({parameter.numel()});
      EXPECT_THAT(thrown_by([&] { engine.step(); }), AllOf(HasSubstr(name), HasSubstr("shape")));
    });
  });
}

// Each field on rank 1 only.
TEST_F(Misuse, OfOptionsThatDifferByRankIsNamedOnAllRanks) {
  const std::vector<std::pair<const char*, std::function<void(Training&)>>> changes = {
      {"optimizer", [](Training& run) { run.optimizer = SGD{.lr = 1}; }},
      {"optimizer", [](Training& run) { run.optimizer = AdamW{.lr = 0.02}; }},
      {"clip_norm", [](Training& run) { run.options.clip_norm = 1; }},
      {"accumulation", [](Training& run) { run.options.accumulation = 2; }},
      {"groups", [](Training& run) { run.options.groups = {{.patterns = {"*"}, .lr = 1}}; }},
      {"model and options",
       [](Training& run) { run.options.stage = run.options.stage == 3 ? 0 : 3; }},
      {"model and options", [](Training& run) { run.options.unit_bytes = Bytes(1 << 20); }},
  };
  each_stage([&] {
    for (const auto& [field, change] : changes) {
      const Training same = training(stage_);
      Training other = same;
      change(other);
      on_threads(same, [&](const Ranks& ranks, const TestModel& model) {
        const Training& run = ranks.rank == Rank(1) ? other : same;
        const std::string text = thrown_by([&] { make_engine(run, ranks, model); });
        // Threads find other units as they meet; then the first to come is left alone.
        const bool first = std::string(field) == "model and options" && !text.starts_with(field);
        EXPECT_THAT(text, first ? HasSubstr("rank") : HasSubstr(field));
      });
    }
  });
}

TEST_F(Misuse, OfASchedulesFactorsIsNamed) {
  each_stage([&] {
    for (const double factor : {-1.0, std::numeric_limits<double>::quiet_NaN(), 0.0}) {
      Training run = training(stage_);
      on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
        Training mine = run;
        // 0 is one that only rank 1 has.
        mine.options.lr_schedule = [&](std::int64_t /*step*/) {
          return factor != 0 || ranks.rank == Rank(1) ? factor : 1.0;
        };
        Engine engine = make_engine(mine, ranks, model);
        engine.backward(model.loss(0, ranks.rank.value()));
        EXPECT_THAT(thrown_by([&] { engine.step(); }), HasSubstr("lr_schedule"));
      });
    }
  });
}

std::string building(const Engine::NamedTensors& parameters, const Optimizer& optimizer = AdamW(),
                     Options options = {}) {
  options.ranks = ranks_as_threads(1).front();
  return thrown_by([&] { const Engine engine(parameters, {}, optimizer, options); });
}

TEST(MisuseOf, ParametersThatTheEngineCannotTake) {
  const at::Tensor plain = at::ones({4, 6});
  EXPECT_THAT(building({{"a", plain}, {"b", at::ones({2}, at::kDouble)}}),
              AllOf(HasSubstr("parameter b"), HasSubstr("Double"), HasSubstr("Float")));
  EXPECT_THAT(building({{"a", at::ones({2}, at::kLong)}}), HasSubstr("parameter a"));
  EXPECT_THAT(building({{"a", plain.to_sparse()}}),
              AllOf(HasSubstr("parameter a"), HasSubstr("strided")));
  EXPECT_THAT(building({{"a", at::Tensor()}}), HasSubstr("parameter a"));
  EXPECT_THAT(building({{"a", plain}, {"part", plain.narrow(0, 1, 2)}}),
              AllOf(HasSubstr("parameter part"), HasSubstr("memory of a")));
  EXPECT_THAT(building({{"a", plain}, {"a", at::ones({2})}}),
              AllOf(HasSubstr("name"), HasSubstr("'a'")));
  // None of that has touched the one that is fine.
  EXPECT_TRUE(plain.equal(at::ones({4, 6})));
}

struct BadOption {
  const char* says;
  std::function<void(Options&)> set;
};

TEST(MisuseOf, EachOption) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const layout::Placement half{.ways = 2}, all{.ways = 1};
  const std::vector<BadOption> bad = {
      {"stage", [](Options& o) { o.stage = -1; }},
      {"stage", [](Options& o) { o.stage = 4; }},
      {"placements.parameters",
       [=](Options& o) {
         o.placements = {half, all, all};
       }},
      {"placements.gradients",
       [=](Options& o) {
         o.placements = {all, half, all};
       }},
      {"placements.optimizer",
       [=](Options& o) {
         o.placements = {all, all, half};
       }},
      {"placements.optimizer",
       [](Options& o) {
         o.placements = {{}, {}, {.ways = 1, .residency = layout::Residency::kNvme}};
       }},
      {"accumulation", [](Options& o) { o.accumulation = 0; }},
      {"accumulation", [](Options& o) { o.accumulation = kMaxAccumulation + 1; }},
      {"order",
       [](Options& o) {
         o.order = {comm::ReduceOrderKind::kGrouped, 0};
       }},
      {"order",
       [](Options& o) {
         o.order = {comm::ReduceOrderKind::kGrouped, 2};
       }},
      {"grad_dtype", [](Options& o) { o.grad_dtype = static_cast<plan::GradientDtype>(2); }},
      {"clip_norm", [](Options& o) { o.clip_norm = 0; }},
      {"clip_norm", [](Options& o) { o.clip_norm = -1; }},
      {"clip_norm", [=](Options& o) { o.clip_norm = nan; }},
      {"unit_bytes", [](Options& o) { o.unit_bytes = Bytes(-1); }},
      {"bucket_bytes", [](Options& o) { o.bucket_bytes = Bytes(-1); }},
      {"prefetch_bytes", [](Options& o) { o.prefetch_bytes = Bytes(-1); }},
      {"gathered_bytes", [](Options& o) { o.gathered_bytes = Bytes(-1); }},
      {"groups[0].patterns", [](Options& o) { o.groups = {{}}; }},
      {"groups[0].patterns",
       [](Options& o) { o.groups = {{.patterns = {"no.such*"}, .lr = {}, .weight_decay = {}}}; }},
      {"groups[0].lr",
       [](Options& o) { o.groups = {{.patterns = {"*"}, .lr = -1, .weight_decay = {}}}; }},
      {"groups[0].weight_decay",
       [=](Options& o) { o.groups = {{.patterns = {"*"}, .lr = {}, .weight_decay = nan}}; }},
      {"deadline", [](Options& o) { o.deadline = Seconds(0); }},
      {"deadline", [=](Options& o) { o.deadline = Seconds(nan); }},
      {"accumulation", [](Options& o) { o.reproducible = true, o.accumulation = 3; }},
      {"order",
       [](Options& o) {
         o.reproducible = true, o.order = {comm::ReduceOrderKind::kTree, 1};
       }},
      {"reduce",
       [](Options& o) {
         o.reproducible = true, o.accumulation = 2;
         o.reduce = plan::ReduceSetting::kEveryMicroStep;
       }},
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    Options options;
    bad[i].set(options);
    EXPECT_THAT(building({{"a", at::ones({3})}}, AdamW(), options), HasSubstr(bad[i].says))
        << "option " << i;
  }
}

TEST(MisuseOf, EachSettingOfAnOptimizer) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<const char*, Optimizer>> bad = {
      {"lr", AdamW{.lr = -1}},
      {"lr", Adam{.lr = infinity}},
      {"lr", SGD{.lr = -1}},
      {"beta1", AdamW{.beta1 = 1}},
      {"beta1", Adam{.beta1 = -0.1}},
      {"beta2", AdamW{.beta2 = 1}},
      {"epsilon", Adam{.epsilon = -1}},
      {"weight_decay", AdamW{.weight_decay = -1}},
      {"momentum", SGD{.momentum = -1}},
      {"weight_decay", SGD{.weight_decay = infinity}}};
  for (const auto& [says, optimizer] : bad) {
    EXPECT_THAT(building({{"a", at::ones({3})}}, optimizer), HasSubstr(says));
  }
}

}  // namespace
}  // namespace shardlight::engine
