// What the tags say is what the kernel sees: for a model above 100 MB, the growth of all tags of
// both ranks together against the growth of their proportional set sizes (anonymous and shared
// memory), within 3 %.
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include "bench/process_memory.h"
#include "shardlight/comm/shm/shm_world.h"
#include "tests/comm/child_processes.h"
#include "tests/sanitizers.h"
#include "training.h"

namespace shardlight::engine {
namespace {

constexpr std::int64_t kWidth = 2048;
constexpr int kLayers = 7;  // of 16 MiB: 117 MB

// Without what the heap keeps for itself.
std::int64_t process_bytes() {
  ::malloc_trim(0);
  return proportional_bytes();
}

at::Tensor loss_of(const Engine::NamedTensors& weights) {
  at::Tensor x = at::full({2, weights.front().second.size(0)}, 0.1);
  for (const auto& [name, weight] : weights) x = x.mm(weight);
  return x.square().mean();
}

Engine::NamedTensors weights_of(std::int64_t width, int layers) {
  Engine::NamedTensors weights;
  for (int i = 0; i < layers; ++i) {
    weights.emplace_back("w" + std::to_string(i), at::full({width, width}, 1e-3).requires_grad_());
  }
  return weights;
}

Options options_of(int stage, std::int64_t rank, const std::string& job) {
  Options options;
  options.stage = stage;
  options.deadline = Seconds(60);
  options.ranks = Ranks{.rank = Rank(rank), .world = 2, .connect = {}};
  options.ranks->connect = [=](const std::vector<comm::UnitSpec>& units) {
    return comm::connect_shm({.job = job, .rank = Rank(rank), .world = 2}, units,
                             comm::Deadline(Seconds(60)));
  };
  return options;
}

struct Growth {
  std::int64_t account = 0, kernel = 0;  // bytes
};

Growth growth_of(std::int64_t width, int layers, const Options& options) {
  const std::int64_t before = process_bytes();
  const auto weights = weights_of(width, layers);
  Engine engine(weights, {}, AdamW{.lr = 1e-4}, options);
  for (int step = 0; step < 2; ++step) {
    engine.backward(loss_of(weights));
    engine.step();
  }
  // At stages 1 and 2 too, all is here again.
  loss_of(weights);
  const comm::Deadline deadline(Seconds(60));
  const auto together = [&] { return engine.transport().barrier(deadline).has_value(); };
  if (!together()) return {};
  const Growth growth{.account = engine.memory().total.now.value(),
                      .kernel = process_bytes() - before};
  return together() ? growth : Growth();
}

class Footprint : public ::testing::TestWithParam<int> {};

TEST_P(Footprint, IsWhatTheTagsSay) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  const std::string job = "engine-footprint-" + std::to_string(::getpid());
  auto* const growths = comm::shared<std::array<Growth, 2>>();
  comm::ChildProcesses children(2, [&](int rank) {
    // What torch and its kernels keep for themselves is there before the first look.
    loss_of(weights_of(kWidth, 1)).backward();
    growth_of(64, 2, options_of(GetParam(), rank, job + "-small"));
    growths->at(static_cast<std::size_t>(rank)) =
        growth_of(kWidth, kLayers, options_of(GetParam(), rank, job));
    return std::string();
  });
  for (const auto& end : children.ends(Seconds(120))) ASSERT_EQ(end.text, "");
  double account = 0, kernel = 0;
  for (const Growth& growth : *growths) {
    account += static_cast<double>(growth.account);
    kernel += static_cast<double>(growth.kernel);
  }
  EXPECT_GT(account, 2e8);
  EXPECT_NEAR(kernel / account, 1, 0.03) << account << " bytes by tags";
}

INSTANTIATE_TEST_SUITE_P(Stages, Footprint, ::testing::Values(0, 3),
                         [](const auto& chosen) { return "Stage" + std::to_string(chosen.param); });

}  // namespace
}  // namespace shardlight::engine
