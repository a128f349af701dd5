// What an engine holds once its model has changed is what a new engine of that model would, by tag;
// on the way to it little is there twice, and nothing stays behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "chain.h"

namespace shardlight::engine {
namespace {

std::vector<std::pair<std::string, std::int64_t>> held(const MemoryReport& report) {
  std::vector<std::pair<std::string, std::int64_t>> held;
  for (const TagReport& tag : report.tags) {
    // What torch holds is the test's.
    if (tag.tag >= memory::Tag::kActivations) continue;
    held.emplace_back(memory::name_of(tag.tag), tag.bytes.now.value());
    EXPECT_EQ(tag.bytes.now, tag.ledger.value_or(tag.bytes.now)) << memory::name_of(tag.tag);
  }
  return held;
}

TEST(RefreshMemory, HoldsWhatANewEngineOfTheModelHolds) {
  for (const std::int64_t world : {1, 2, 3}) {
    for (int stage = 0; stage <= 3; ++stage) {
      ChainRun run{.type = at::kBFloat16, .world = world};
      run.options.stage = stage;
      run.options.unit_bytes = Bytes(stage % 2 == 0 ? 0 : 6000);
      run.changes[1] = [](Chain& chain) { chain.train("in", false); };
      run.changes[3] = [](Chain& chain) { chain.remove("blocks.1"); };
      on_chain_threads(world, [&](const Ranks& ranks) {
        std::vector<std::pair<std::string, std::int64_t>> refreshed;
        train_chain(run, ranks, [&](Engine& engine, Chain& chain) {
          chain.add("blocks.7");
          chain.train("blocks.0", false);
          engine.refresh(chain.parameters(), chain.buffers);
          refreshed = held(engine.memory());
          engine.close();
          Options options = run.options;
          options.ranks = ranks;
          const Engine fresh(chain.parameters(), chain.buffers, run.optimizer, options);
          EXPECT_EQ(refreshed, held(fresh.memory())) << world << " ranks, stage " << stage;
        });
      });
    }
  }
}

memory::Level level(const Engine& engine, memory::Tag tag) {
  const MemoryReport report = engine.memory();
  return std::ranges::find(report.tags, tag, &TagReport::tag)->bytes;
}

// Of 12 equal blocks no more than one is in two places at once, but for shards, while the old
// transport ends.
TEST(RefreshMemory, HoldsNoMoreThanAUnitOfStatesTwice) {
  ChainRun run{.type = at::kBFloat16};
  on_chain_threads(2, [&](const Ranks& ranks) {
    Chain chain(run.type, ranks.rank.value());
    for (int block = 2; block < 12; ++block) chain.add("blocks." + std::to_string(block));
    Options options{.stage = 3, .unit_bytes = Bytes(0), .ranks = ranks};
    Engine engine(chain.parameters(), chain.buffers, run.optimizer, options);
    const Bytes masters = level(engine, memory::Tag::kMaster).now;
    const Bytes parameters = level(engine, memory::Tag::kParameters).now;
    chain.train("in", false);
    engine.refresh(chain.parameters(), chain.buffers);
    EXPECT_LT(level(engine, memory::Tag::kMaster).now, masters);
    // A block is 1/12 of less than all.
    EXPECT_LE(level(engine, memory::Tag::kMaster).peak * 12, masters * 13);
    EXPECT_LE(level(engine, memory::Tag::kOptimizer).peak * 12, masters * 26);
    EXPECT_LE(level(engine, memory::Tag::kParameters).peak, parameters * 2);
  });
}

std::int64_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

TEST(RefreshMemory, AgainAndAgainLeavesNothingBehind) {
  for (const int stage : {0, 3}) {
    std::vector<std::int64_t> after(2);
    on_chain_threads(1, [&](const Ranks& ranks) {
      Chain chain(at::kBFloat16);
      Options options{.stage = stage, .unit_bytes = Bytes(0), .ranks = ranks};
      Engine engine(chain.parameters(), chain.buffers, AdamW(), options);
      const Bytes before = engine.memory().total.now;
      for (int round = 0; round < 60; ++round) {
        chain.train("blocks.0", round % 2 == 0);
        engine.refresh(chain.parameters(), chain.buffers);
        if (round == 10) after[0] = mappings();
      }
      after[1] = mappings();
      chain.train("blocks.0", true);
      engine.refresh(chain.parameters(), chain.buffers);
      EXPECT_EQ(engine.memory().total.now, before);
    });
    EXPECT_NEAR(static_cast<double>(after[1]), static_cast<double>(after[0]), 20);
  }
}

}  // namespace
}  // namespace shardlight::engine
