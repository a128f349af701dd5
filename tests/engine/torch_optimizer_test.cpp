// Classes of torch.optim over segments: the bits of the class on whole parameters in a plain
// process, at every stage; what is refused; and where the states' bytes are counted.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <fnmatch.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "each_stage.h"
#include "own_optimizers.h"
#include "plain_twin.h"
#include "shardlight/base/environment.h"
#include "shardlight/engine/torch_optimizer.h"

namespace shardlight::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using torch::optim::OptimizerParamGroup;

// The class in a plain process: a group for each parameter, so that none of ours are taken over.
template <class Class, class Options>
MakePlainStep plainly(const Options& options, const std::vector<ParameterGroup>& groups,
                      const LrSchedule& schedule) {
  return [=](const Stepped& stepped) -> PlainStep {
    std::vector<OptimizerParamGroup> each;
    for (const auto& [name, tensor] : stepped) each.emplace_back(std::vector<at::Tensor>{tensor});
    auto plain = std::make_shared<Class>(each, options);
    std::vector<double> lrs;
    for (std::size_t i = 0; i < stepped.size(); ++i) {
      auto& own = dynamic_cast<Options&>(plain->param_groups()[i].options());
      for (const ParameterGroup& group : groups) {
        if (fnmatch(group.patterns.front().c_str(), stepped[i].first.c_str(), 0) != 0) continue;
        own.lr(group.lr.value_or(own.lr()));
        own.weight_decay(group.weight_decay.value_or(own.weight_decay()));
        break;
      }
      lrs.push_back(own.lr());
    }
    return [=](std::int64_t step) {
      for (std::size_t i = 0; i < lrs.size(); ++i) {
        auto& own = dynamic_cast<Options&>(plain->param_groups()[i].options());
        if (schedule) own.lr(lrs[i] * schedule(step));
      }
      plain->step(nullptr);
    };
  };
}

using Choose = std::function<void(Training& run)>;

template <class Class, class Options>
Choose choice_of(const Options& options) {
  return [=](Training& run) {
    run.optimizer = torch_optimizer<Class>(options);
    run.plain = plainly<Class>(options, run.options.groups, run.options.lr_schedule);
  };
}

const std::vector<std::pair<const char*, Choose>> kChoices = {
    {"Adagrad", choice_of<torch::optim::Adagrad>(
                    torch::optim::AdagradOptions(0.01).lr_decay(0.1).weight_decay(0.1))},
    {"RMSprop", choice_of<torch::optim::RMSprop>(
                    torch::optim::RMSpropOptions(0.01).momentum(0.9).centered(true))},
    {"SGD", choice_of<torch::optim::SGD>(
                torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(true).weight_decay(0.1))},
    {"AdamW", choice_of<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).amsgrad(true))},
    {"an own one", choice_of<SignOfMean>(OwnOptions(0.01).weight_decay(0.1))}};

class TorchOptimizers : public ::testing::TestWithParam<std::string> {};

// Quick: of every model two or three classes, each with another number of ranks, turned from model
// to model.
TEST_P(TorchOptimizers, HaveTheBitsOfAPlainProcess) {
  const bool full = Environment::of_process().text("SHARDLIGHT_TEST_TIER") == "full";
  const auto names = model_names();
  const auto model = static_cast<std::size_t>(std::ranges::find(names, GetParam()) - names.begin());
  for (std::size_t i = 0; i < kChoices.size(); ++i) {
    for (std::int64_t world = 1; world <= 4; ++world) {
      const auto turn = model + i + static_cast<std::size_t>(world);
      if (!full && (turn % kChoices.size() != 0 || (model / 5 + i) % 2 != 0)) continue;
      Training run;
      run.model = GetParam();
      run.world = world;
      run.options.accumulation = turn % 2 == 0 ? 1 : 2;
      run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
      run.options.unit_bytes = Bytes(i % 2 == 0 ? 0 : 4096);
      if (i % 3 == 0) run.options.clip_norm = 0.05;
      run.options.deadline = Seconds(60);
      const auto& [name, choose] = kChoices[i];
      choose(run);
      SCOPED_TRACE(testing::Message() << name << ", " << world << " ranks");
      expect_all_stages_equal(run, train_plainly(run));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TorchOptimizers, ::testing::ValuesIn(model_names()),
                         [](const auto& chosen) { return chosen.param; });

// The class has fp32 gradients whatever the sums are.
TEST(TorchOptimizer, StepsWithSumsOf16BitsWidened) {
  for (const char* model : {"bf16", "mixed"}) {
    Training run;
    run.model = model;
    run.world = 2;
    run.options.grad_dtype = plan::GradientDtype::kCompute;
    run.options.accumulation = 2;
    run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
    run.options.unit_bytes = Bytes(0);
    run.options.clip_norm = 1e-3;
    run.options.deadline = Seconds(60);
    kChoices.front().second(run);
    expect_all_stages_equal(run, train_plainly(run));
  }
}

TEST(TorchOptimizer, FollowsGroupsAndTheSchedule) {
  for (const auto& [name, choose] : kChoices) {
    for (const std::int64_t world : {1, 3}) {
      SCOPED_TRACE(testing::Message() << name << ", " << world << " ranks");
      Training run;
      run.world = world;
      run.options.unit_bytes = Bytes(0);
      // 0 is what the classes' options have by themselves.
      run.options.groups = {{.patterns = {"*.bias"}, .lr = 0.1, .weight_decay = 0},
                            {.patterns = {"second.*"}, .lr = {}, .weight_decay = 0.5}};
      run.options.lr_schedule = warmup_cosine(2, 10);
      choose(run);
      expect_all_stages_equal(run, train_plainly(run));
    }
  }
}

// Rank 1's gradient of the second step is not finite.
TEST(TorchOptimizer, LeavesOutStepsThatAreSkipped) {
  for (const auto& [name, choose] : kChoices) {
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(testing::Message() << name << ", stage " << stage);
      Training run;
      run.world = 2;
      run.steps = 2;
      run.options.unit_bytes = Bytes(1024);
      run.options.stage = stage;
      choose(run);
      const Outcome expected = train_plainly(run);
      on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
        Engine engine = make_engine(run, ranks, model);
        accumulate(engine, run, model, 0);
        EXPECT_FALSE(engine.step().skipped);
        const at::Tensor loss = model.loss(5, ranks.rank.value());
        engine.backward(ranks.rank == Rank(1) ? loss * INFINITY : loss);
        EXPECT_TRUE(engine.step().skipped);
        accumulate(engine, run, model, 1);
        EXPECT_FALSE(engine.step().skipped);
        engine.close();
        for (const auto& [parameter, value] : model.parameters) {
          EXPECT_TRUE(value.equal(expected.parameters.at(parameter))) << parameter;
        }
      });
    }
  }
}

// As docs/engine.md has it.
TEST(TorchOptimizer, IsGivenByItsClassAndOptions) {
  torch::nn::Linear linear(3, 2);
  auto model = linear.ptr();
  const at::Tensor before = linear->weight.detach().clone();
  shardlight::Engine engine(
      model, shardlight::torch_optimizer<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01)),
      {.stage = 3});
  engine.backward(linear(at::ones({1, 3})).sum());
  engine.step();
  engine.close();
  // The first step of Adagrad is the lr long, whatever the gradient.
  EXPECT_TRUE(linear->weight.allclose(before - 0.01, 0, 1e-6));
}

std::string building(const Optimizer& optimizer, Options options = {}) {
  options.ranks = ranks_as_threads(1).front();
  try {
    const Engine engine({{"a", at::ones({3}).requires_grad_()}}, {}, optimizer, options);
  } catch (const Error& thrown) {
    return thrown.what();
  }
  return "nothing was thrown";
}

TEST(TorchOptimizer, ThatDoesNotStepEachElementByItselfIsRefusedByName) {
  const OwnOptions options(0.01);
  const auto refused = [](const char* name, const char* why) {
    return AllOf(HasSubstr("optimizer"), HasSubstr(name), HasSubstr("each element by itself"),
                 HasSubstr(why));
  };
  EXPECT_THAT(building(torch_optimizer<TrustRatio>(options)), refused("TrustRatio", "in pieces"));
  EXPECT_THAT(building(torch_optimizer<RowsOfMatrices>(options)),
              refused("RowsOfMatrices", "in pieces"));
  EXPECT_THAT(building(torch_optimizer<Noise>(options)), refused("Noise", "in pieces"));
  EXPECT_THAT(building(torch_optimizer<KeepsGradients>(options)),
              refused("KeepsGradients", "clone()"));
  EXPECT_THAT(building(torch_optimizer<NewValues>(options)), refused("NewValues", "in place"));
  EXPECT_THAT(building(torch_optimizer<torch::optim::LBFGS>(torch::optim::LBFGSOptions(1))),
              refused("torch::optim::LBFGS", "requires a closure"));
  EXPECT_THAT(building(torch_optimizer<NeedsAClosure>(options)),
              refused("NeedsAClosure", "closure"));
  EXPECT_THAT(building(torch_optimizer<torch::optim::SGD>(torch::optim::SGDOptions(-1))),
              AllOf(HasSubstr("torch::optim::SGD"), HasSubstr("Invalid learning rate")));
}

TEST(TorchOptimizer, ThatIsDeclaredElementwiseIsTakenUnlessItFails) {
  const TorchChoices declared{.elementwise = true};
  const OwnOptions options(0.01);
  EXPECT_EQ(building(torch_optimizer<TrustRatio>(options, declared)), "nothing was thrown");
  EXPECT_THAT(building(torch_optimizer<NeedsAClosure>(options, declared)),
              HasSubstr("NeedsAClosure"));
  EXPECT_THAT(
      building(torch_optimizer<torch::optim::LBFGS>(torch::optim::LBFGSOptions(1), declared)),
      HasSubstr("LBFGS"));
}

TEST(TorchOptimizer, WithoutWhatAGroupOrAScheduleSetsIsAnErrorByTheField) {
  const Optimizer bare = torch_optimizer<BySign>(BareOptions());
  EXPECT_EQ(building(bare), "nothing was thrown");
  Options options;
  options.groups = {{.patterns = {"a"}, .lr = 0.1, .weight_decay = {}}};
  EXPECT_THAT(building(bare, options), AllOf(HasSubstr("groups[0].lr"), HasSubstr("BySign")));
  options.groups = {{.patterns = {"a"}, .lr = {}, .weight_decay = 0.1}};
  EXPECT_THAT(building(bare, options), HasSubstr("groups[0].weight_decay"));
  options.groups = {};
  options.lr_schedule = warmup_cosine(1, 2);
  EXPECT_THAT(building(bare, options), HasSubstr("lr_schedule"));
}

TEST(TorchOptimizer, IsTriedOutWithoutATraceInTorchsGenerator) {
  const auto drawn = [](const Optimizer& optimizer) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(7);
    building(optimizer);
    return at::randn({20});
  };
  const at::Tensor expected = drawn(AdamW());
  EXPECT_TRUE(drawn(torch_optimizer<SignOfMean>(OwnOptions(0.01))).equal(expected));
  EXPECT_TRUE(drawn(torch_optimizer<Noise>(OwnOptions(0.01))).equal(expected));
}

TEST(TorchOptimizer, ThatDiffersByRankIsNamedOnAllRanks) {
  using torch::optim::AdagradOptions;
  const auto sum_of = [](double first) {
    return torch_optimizer<torch::optim::Adagrad>(
        AdagradOptions(0.01).initial_accumulator_value(first));
  };
  for (const Optimizer& other : std::vector<Optimizer>{
           sum_of(1), torch_optimizer<SignOfMean>(OwnOptions(0.01)), AdamW{.lr = 0.01}}) {
    Training run;
    run.world = 2;
    run.options.deadline = Seconds(20);
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      Training mine = run;
      mine.optimizer = ranks.rank == Rank(1) ? other : sum_of(0);
      try {
        make_engine(mine, ranks, model);
        ADD_FAILURE() << "an engine was made";
      } catch (const Error& error) {
        EXPECT_EQ(error.field(), "optimizer");
      }
    });
  }
}

const TagReport& tag(const MemoryReport& report, memory::Tag which) {
  return report.tags.at(static_cast<std::size_t>(which));
}

const TagReport& optimizer_tag(const MemoryReport& report) {
  return tag(report, memory::Tag::kOptimizer);
}

// Adagrad has its sums from the start, the own class a mean from the first step on. What they need
// within a step is neither a state nor an activation: Adagrad holds two tensors of a segment's size
// at once, forward one.
TEST(TorchOptimizer, HasItsStatesOnTheAccount) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool own : {false, true}) {
      Training run;
      run.world = 2;
      run.options.stage = stage;
      run.options.unit_bytes = Bytes(0);
      kChoices[own ? 4 : 0].second(run);
      const std::int64_t share = stage == 0 ? 1 : 2;
      const std::int64_t states = std::int64_t{4} * 2 * 64 * 64 / share;
      on_threads(run, [&](const Ranks& ranks, const TestModel& /*model*/) {
        const std::vector<std::pair<std::string, at::Tensor>> weights = {
            {"a", at::ones({64, 64}).requires_grad_()}, {"b", at::ones({64, 64}).requires_grad_()}};
        Engine engine = make_engine(run, ranks, {.parameters = weights});
        EXPECT_EQ(optimizer_tag(engine.memory()).bytes.now, Bytes(own ? 0 : states));
        std::int64_t temporaries = 0;
        for (int step = 0; step < 3; ++step) {
          engine.backward((weights[0].second * weights[1].second).sum());
          engine.step();
          const auto report = engine.memory();
          EXPECT_EQ(optimizer_tag(report).bytes.now, Bytes(states)) << "stage " << stage;
          EXPECT_EQ(optimizer_tag(report).bytes.peak, Bytes(states)) << "stage " << stage;
          EXPECT_EQ(optimizer_tag(report).ledger, Bytes(states)) << "stage " << stage;
          EXPECT_LT(tag(report, memory::Tag::kActivations).bytes.peak.value(), 2 * 64 * 64 * 4);
          const auto held = tag(report, memory::Tag::kTemporaries).bytes.now.value();
          if (step == 0) temporaries = held;
          EXPECT_EQ(held, temporaries);
        }
        EXPECT_THAT([&] { engine.optimizer_state(weights[0].second, "sum"); },
                    ::testing::ThrowsMessage<Error>(HasSubstr("its own")));
        engine.close();
        EXPECT_EQ(optimizer_tag(engine.memory()).bytes.now, Bytes(0));
      });
    }
  }
}

}  // namespace
}  // namespace shardlight::engine
