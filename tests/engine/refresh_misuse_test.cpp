// refresh() where it may not be, of models that ranks have not alike or that the engine cannot
// take: a named error on all ranks, after which the engine goes on with the same bits; and one that
// fails on its way, which says what was lost.
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <torch/optim/adagrad.h>

#include "chain.h"
#include "shardlight/engine/torch_optimizer.h"

namespace shardlight::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RefreshMisuse : public ::testing::Test {
 protected:
  using Body = std::function<void(Engine& engine, Chain& chain)>;

  // On two ranks, at every stage.
  static void on_engines(const Body& body, const Options& given = {},
                         const Optimizer& optimizer = AdamW{.lr = 1e-2}) {
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(testing::Message() << "stage " << stage);
      on_chain_threads(2, [&](const Ranks& ranks) {
        Options options = given;
        options.stage = stage;
        options.unit_bytes = Bytes(0);
        options.deadline = Seconds(20);
        options.ranks = ranks;
        Chain chain(at::kFloat, ranks.rank.value());
        Engine engine(chain.parameters(), chain.buffers, optimizer, options);
        body(engine, chain);
      });
    }
  }

  static std::string refreshing(Engine& engine, const Chain& chain) {
    return thrown_by([&] { engine.refresh(chain.parameters(), chain.buffers); });
  }

  static void backward(Engine& engine, const Chain& chain, std::int64_t step) {
    engine.backward(chain.loss(step, engine.rank().value()));
  }

  // Before the third step the ranks misuse it; nothing may come of that.
  static void expect_no_trace(const Body& misuse, const Options& given = {}) {
    const ChainRun run{.world = 2, .steps = 4, .optimizer = AdamW{.lr = 1e-2}};
    const Outcome by_hand = train_chain_by_hand(run);
    on_engines(
        [&](Engine& engine, Chain& chain) {
          for (std::int64_t step = 0; step < run.steps; ++step) {
            if (step == 2) misuse(engine, chain);
            backward(engine, chain, step);
            const double norm = by_hand.norms.at(static_cast<std::size_t>(step));
            EXPECT_EQ(engine.step().gradient_norm, norm) << "step " << step;
          }
        },
        given);
  }
};

TEST_F(RefreshMisuse, WithGradientsThatWait) {
  on_engines([](Engine& engine, Chain& chain) {
    chain.train("in", false);
    backward(engine, chain, 0);
    EXPECT_THAT(refreshing(engine, chain), HasSubstr("gradients that wait"));
    engine.step();
    EXPECT_EQ(refreshing(engine, chain), "nothing was thrown");
    {
      const auto scope = engine.no_sync();
      EXPECT_THAT(refreshing(engine, chain), HasSubstr("within no_sync"));
      backward(engine, chain, 0);
    }
    EXPECT_THAT(refreshing(engine, chain), HasSubstr("gradients that wait"));
    backward(engine, chain, 1);
    engine.step();
    EXPECT_EQ(refreshing(engine, chain), "nothing was thrown");
  });
}

TEST_F(RefreshMisuse, WithinBackward) {
  on_engines([](Engine& engine, Chain& chain) {
    std::string said;
    chain.at("blocks.0").weight.register_hook([&](const at::Tensor& /*gradient*/) {
      said = refreshing(engine, chain);
    });
    backward(engine, chain, 0);
    EXPECT_THAT(said, HasSubstr("gradients that wait"));
    engine.step();
  });
}

TEST_F(RefreshMisuse, WithinAScope) {
  expect_no_trace([](Engine& engine, Chain& chain) {
    const auto scope = engine.gathered({chain.at("in").weight});
    EXPECT_THAT(refreshing(engine, chain), HasSubstr("gathered"));
  });
}

TEST_F(RefreshMisuse, OfModelsThatDifferFromRankToRank) {
  expect_no_trace([](Engine& engine, Chain& chain) {
    const bool first = engine.rank() == Rank(0);
    const at::Tensor weight = chain.at("blocks.0").weight;
    weight.set_requires_grad(first);
    EXPECT_THAT(refreshing(engine, chain), HasSubstr("parameters"));
    weight.set_requires_grad(true);
    auto parameters = chain.parameters();
    const auto with_more = [&](const char* name, const at::Tensor& more) {
      auto changed = parameters;
      if (!first) changed.emplace_back(name, more);
      return thrown_by([&] { engine.refresh(changed, {}); });
    };
    EXPECT_THAT(with_more("more", at::ones({3})), HasSubstr("parameters"));
    // One of the same name and shape that only one of them has replaced.
    parameters[0].second =
        first ? chain.at("in").weight : at::ones({37, 13}).set_requires_grad(true);
    EXPECT_THAT(thrown_by([&] { engine.refresh(parameters, {}); }),
                HasSubstr("parameters that stay"));
    EXPECT_THAT(thrown_by([&] {
                  engine.refresh(chain.parameters(), {{"buffer", at::ones({first ? 2 : 3})}});
                }),
                HasSubstr("buffers"));
  });
}

// What one rank alone finds, the others hear of.
TEST_F(RefreshMisuse, OfWhatOneRankCannotTake) {
  expect_no_trace([](Engine& engine, Chain& chain) {
    const auto refused = [&](const at::Tensor& bad, const char* why) {
      auto parameters = chain.parameters();
      const bool mine = engine.rank() == Rank(1);
      parameters.emplace_back("more", mine ? bad : at::ones({2}));
      EXPECT_THAT(thrown_by([&] { engine.refresh(parameters, {}); }),
                  HasSubstr(mine ? why : "refused on another rank"));
    };
    refused(at::ones({2}, at::kDouble), "parameter more");
    refused(at::Tensor(), "parameter more");
    refused(chain.at("in").weight.detach(), "a view of the memory of in.weight");
    Options alone;
    alone.ranks = ranks_as_threads(1).front();
    const at::Tensor theirs = at::ones({2}).set_requires_grad(true);
    const Engine other({{"theirs", theirs}}, {}, AdamW(), alone);
    refused(theirs, "in another engine");
  });
}

TEST_F(RefreshMisuse, OfAGroupThatNobodyIsInAnyMore) {
  Options options;
  options.groups = {{.patterns = {"blocks.0.*"}, .lr = {}, .weight_decay = {}}};
  expect_no_trace(
      [](Engine& engine, Chain& chain) {
        auto parameters = chain.parameters();
        std::erase_if(parameters,
                      [](const auto& named) { return named.first.starts_with("blocks.0"); });
        EXPECT_THAT(thrown_by([&] { engine.refresh(parameters, {}); }),
                    AllOf(HasSubstr("groups[0].patterns"), HasSubstr("blocks.0")));
      },
      options);
}

TEST_F(RefreshMisuse, OfReplacedMemory) {
  on_engines([](Engine& engine, Chain& chain) {
    chain.at("in").weight.set_data(at::ones({37, 13}));
    EXPECT_THAT(refreshing(engine, chain), AllOf(HasSubstr("in.weight"), HasSubstr("memory")));
  });
}

TEST_F(RefreshMisuse, OfEditsThatDiffer) {
  on_engines([](Engine& engine, Chain& chain) {
    {
      const at::NoGradGuard no_grad;
      chain.at("in").weight.fill_(static_cast<double>(engine.rank().value()));
    }
    chain.train("out", false);
    EXPECT_THAT(refreshing(engine, chain),
                AllOf(HasSubstr("in.weight"), HasSubstr("other values")));
    EXPECT_TRUE(engine.failure().has_value());
  });
}

// What step() says of a parameter that was unfrozen.
TEST_F(RefreshMisuse, IsWhatStepAsksFor) {
  on_engines([](Engine& engine, Chain& chain) {
    chain.train("in", false);
    engine.refresh(chain.parameters(), {});
    chain.train("in", true);
    backward(engine, chain, 0);
    EXPECT_THAT(thrown_by([&] { engine.step(); }),
                AllOf(HasSubstr("in.weight"), HasSubstr("Engine::refresh")));
    chain.train("in", false);
    engine.step();
    chain.train("in", true);
    engine.refresh(chain.parameters(), {});
    EXPECT_FALSE(chain.at("in").weight.grad().defined());
    backward(engine, chain, 1);
    engine.step();
  });
}

TEST_F(RefreshMisuse, WithAClassOfTorchOptimIsForModelsThatDoNotChange) {
  const auto adagrad = torch_optimizer<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01));
  on_engines(
      [](Engine& engine, Chain& chain) {
        backward(engine, chain, 0);
        engine.step();
        EXPECT_EQ(refreshing(engine, chain), "nothing was thrown");
        chain.train("in", false);
        EXPECT_THAT(refreshing(engine, chain), AllOf(HasSubstr("optimizer"), HasSubstr("Adagrad")));
        chain.train("in", true);
        backward(engine, chain, 1);
        engine.step();
      },
      {}, adagrad);
}

// Nothing trains: that is allowed, and what torch says of a backward is no end of the engine.
TEST_F(RefreshMisuse, OfAModelThatIsFrozenAltogether) {
  on_engines([](Engine& engine, Chain& chain) {
    const auto train = [&](bool trains) {
      for (const char* name : {"in", "blocks.0", "blocks.1", "out"}) chain.train(name, trains);
      engine.refresh(chain.parameters(), {});
    };
    backward(engine, chain, 0);
    engine.step();
    const double before = chain.loss(1, 0).item<double>();
    train(false);
    for (const TagReport& tag : engine.memory().tags) {
      if (tag.tag == memory::Tag::kGradients || tag.tag == memory::Tag::kOptimizer) {
        EXPECT_EQ(tag.bytes.now, Bytes(0));
      }
    }
    EXPECT_EQ(chain.loss(1, 0).item<double>(), before);
    EXPECT_THAT(thrown_by([&] { backward(engine, chain, 1); }), HasSubstr("grad"));
    train(true);
    EXPECT_EQ(chain.loss(1, 0).item<double>(), before);
    backward(engine, chain, 1);
    EXPECT_EQ(engine.step().step, 2);
  });
}

TEST_F(RefreshMisuse, OfAnEngineWithoutAModelOrThatIsClosed) {
  Engine unbuilt{AdamW()};
  EXPECT_THAT(thrown_by([&] { unbuilt.refresh({}, {}); }), HasSubstr("without a model"));
  on_engines([](Engine& engine, Chain& chain) {
    engine.close();
    EXPECT_THAT(refreshing(engine, chain), HasSubstr("closed"));
  });
}

// The ranks that are there learn who is not.
TEST_F(RefreshMisuse, OnOneRankAlone) {
  on_chain_threads(2, [&](const Ranks& ranks) {
    Chain chain(at::kFloat, ranks.rank.value());
    Options options{.stage = 3, .deadline = Seconds(0.3), .ranks = ranks};
    Engine engine(chain.parameters(), {}, AdamW(), options);
    if (ranks.rank == Rank(1)) return;
    EXPECT_THAT(refreshing(engine, chain), AllOf(HasSubstr("rank 0, "), HasSubstr("rank 1")));
  });
}

// Ranks that do not meet again: what was sharded is lost and says so, what is new is not.
TEST_F(RefreshMisuse, ThatFailsOnItsWaySaysWhatIsLost) {
  on_chain_threads(2, [&](const Ranks& ranks) {
    Chain chain(at::kFloat, ranks.rank.value());
    Options options{.stage = 3, .ranks = ranks};
    options.ranks->connect =
        [connect = ranks.connect, calls = std::make_shared<int>(0)](
            const std::vector<comm::UnitSpec>& units) -> Result<std::unique_ptr<comm::Transport>> {
      if ((*calls)++ == 0) return connect(units);
      return Failure(Error::environment({.rank = {}, .unit = "", .operation = "connect"},
                                        "no way through", Unusable::kCommunicator));
    };
    Engine engine(chain.parameters(), {}, AdamW(), options);
    backward(engine, chain, 0);
    engine.step();
    chain.remove("blocks.0");
    chain.add("blocks.2");
    EXPECT_THAT(refreshing(engine, chain), HasSubstr("no way through"));
    EXPECT_THAT(engine.failure()->message(), HasSubstr("no way through"));
    EXPECT_THAT(thrown_by([&] { chain.at("in").weight.sum(); }),
                AllOf(HasSubstr("in.weight was lost"), HasSubstr("no way through")));
    for (const at::Tensor& whole : {chain.at("blocks.2").weight, chain.removed.at(0).weight}) {
      EXPECT_TRUE(std::isfinite(whole.sum().item<double>()));
    }
    EXPECT_THAT(thrown_by([&] { engine.transport(); }), HasSubstr("engine"));
    EXPECT_THAT(thrown_by([&] { engine.gathered({chain.at("in").weight}); }), HasSubstr("engine"));
    EXPECT_THAT(thrown_by([&] { engine.step(); }), HasSubstr("engine"));
    for (const TagReport& tag : engine.memory().tags) {
      if (tag.tag == memory::Tag::kActivations) continue;  // of the new layer, by torch
      EXPECT_EQ(tag.bytes.now, Bytes(0)) << memory::name_of(tag.tag);
    }
    engine.traffic();
    engine.close();
  });
}

}  // namespace
}  // namespace shardlight::engine
