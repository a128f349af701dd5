#include "shardlight/comm/reduce_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace shardlight::comm {
namespace {

std::vector<ReduceOrder> orders_of(std::int64_t world) {
  using enum ReduceOrderKind;
  std::vector<ReduceOrder> orders = {{.kind = kLinear}, {.kind = kTree}};
  for (std::int64_t group = 1; group <= world; ++group) {
    orders.push_back({.kind = kGrouped, .group = group});
  }
  return orders;
}

// Carries the steps out with texts as numbers: what is added to what, in brackets.
class Simulation {
 public:
  Simulation(const ReduceOrder& order, std::int64_t world)
      : world_(world), buffers_(reduce_buffers(order, world)) {
    for (std::int64_t rank = 0; rank < world; ++rank) {
      steps_.push_back(reduce_steps(order, world, Rank(rank)));
    }
  }

  // `prefers_high`: the ranks are given their turns from the last one down, else up.
  std::string run(bool prefers_high) {
    std::vector<std::size_t> at(static_cast<std::size_t>(world_), 0);
    std::map<int, std::string> sums;
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::int64_t i = 0; i < world_ && !moved; ++i) {
        const std::int64_t rank = prefers_high ? world_ - 1 - i : i;
        if (at[rank] == steps_[rank].size()) continue;
        const ReduceStep& step = steps_[rank][at[rank]];
        if (step.after != ReduceStep::kNobody && at[step.after] < steps_[step.after].size()) {
          continue;
        }
        EXPECT_LT(step.target, buffers_);
        EXPECT_LT(step.source, buffers_);
        const std::string part =
            step.source == kOwnGradient ? std::to_string(rank) : sums[step.source];
        std::string& target = sums[step.target];
        target = target.empty() ? part : "(" + target + "+" + part + ")";
        ++at[rank];
        moved = true;
      }
    }
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      EXPECT_EQ(at[rank], steps_[rank].size()) << "rank " << rank << " waits for ever";
    }
    return sums[kSumBuffer];
  }

  const std::vector<std::vector<ReduceStep>>& steps() const { return steps_; }

 private:
  std::int64_t world_;
  int buffers_;
  std::vector<std::vector<ReduceStep>> steps_;
};

std::string tree_text(std::int64_t begin, std::int64_t end) {
  if (end - begin == 1) return std::to_string(begin);
  std::int64_t half = 1;
  while (2 * half < end - begin) half *= 2;
  return "(" + tree_text(begin, begin + half) + "+" + tree_text(begin + half, end) + ")";
}

std::string chain_text(const std::vector<std::string>& parts) {
  std::string text = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) text = "(" + text + "+" + parts[i] + ")";
  return text;
}

std::string expected_text(const ReduceOrder& order, std::int64_t world) {
  if (order.kind == ReduceOrderKind::kTree) return tree_text(0, world);
  const std::int64_t size = order.kind == ReduceOrderKind::kGrouped ? order.group : 1;
  std::vector<std::string> groups;
  for (std::int64_t first = 0; first < world; first += size) {
    std::vector<std::string> group;
    for (std::int64_t rank = first; rank < std::min(first + size, world); ++rank) {
      group.push_back(std::to_string(rank));
    }
    groups.push_back(chain_text(group));
  }
  return chain_text(groups);
}

TEST(ReduceSteps, AddInTheOrderOfTheDocumentationWhoeverIsFast) {
  for (std::int64_t world = 1; world <= 33; ++world) {
    for (const ReduceOrder& order : orders_of(world)) {
      Simulation simulation(order, world);
      const std::string expected = expected_text(order, world);
      ASSERT_EQ(simulation.run(false), expected) << text_of(order) << " of " << world;
      ASSERT_EQ(simulation.run(true), expected) << text_of(order) << " of " << world;
    }
  }
}

TEST(ReduceSteps, EachRankContributesOnceAndWaitsForLowerRanksOnly) {
  for (std::int64_t world = 1; world <= 33; ++world) {
    for (const ReduceOrder& order : orders_of(world)) {
      const Simulation simulation(order, world);
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const auto& steps = simulation.steps()[rank];
        const auto own = [](const ReduceStep& step) { return step.source == kOwnGradient; };
        ASSERT_EQ(std::count_if(steps.begin(), steps.end(), own), 1);
        for (const ReduceStep& step : steps) ASSERT_LT(step.after, rank);
      }
    }
  }
}

// What lets a rank begin the next round: that the last rank is done says that all are.
TEST(ReduceSteps, TheLastRankIsDoneLast) {
  for (std::int64_t world = 1; world <= 33; ++world) {
    for (const ReduceOrder& order : orders_of(world)) {
      const Simulation simulation(order, world);
      std::set<std::int64_t> behind = {world - 1};
      for (std::int64_t rank = world - 1; rank >= 0; --rank) {
        ASSERT_TRUE(behind.contains(rank)) << text_of(order) << " of " << world << ": " << rank;
        for (const ReduceStep& step : simulation.steps()[rank]) behind.insert(step.after);
      }
    }
  }
}

TEST(ReduceOrder, HasAName) {
  EXPECT_EQ(text_of(ReduceOrder{}), "linear");
  EXPECT_EQ(text_of(ReduceOrder{.kind = ReduceOrderKind::kGrouped, .group = 3}), "grouped 3");
  EXPECT_EQ(text_of(ReduceOrder{.kind = ReduceOrderKind::kTree}), "tree");
}

}  // namespace
}  // namespace shardlight::comm
