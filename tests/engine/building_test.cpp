// Models made within the engine: the values of the plain constructor at every stage, for memory of
// shards and the cap, under a limit that the plain constructor does not fit in; and what goes
// wrong.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

#include <fstream>

#include "processes.h"
#include "tests/sanitizers.h"
#include "training.h"

namespace shardlight::engine {
namespace {

class BuiltModels : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(threads_of_process(), 1) << "no fork is safe any more"; }
};

constexpr int kLayers = 8;

// What its constructor does is what others do: layers, tied weights, a buffer, a second look at all
// weights, and temporaries.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t width, int layers = kLayers) {
    for (int i = 0; i < layers; ++i) {
      layer.push_back(
          register_module("layer" + std::to_string(i), torch::nn::Linear(width, width)));
      norm.push_back(register_module("norm" + std::to_string(i),
                                     torch::nn::LayerNorm(std::vector<std::int64_t>{width})));
    }
    head = register_parameter("head", at::randn({width, width}) / 30);
    register_parameter("tied", head);
    mask = register_buffer("mask", at::rand({width, width}));
    const torch::NoGradGuard no_grad;
    for (auto& linear : layer) {
      linear->weight.mul_(0.5);
      linear->weight.add_(at::randn({width, width}), 1e-3);
    }
  }

  at::Tensor forward(at::Tensor x) {
    for (std::size_t i = 0; i < layer.size(); ++i) x = x + norm[i](layer[i](x)).tanh();
    return x.mm(mask).mm(head);
  }

  std::vector<torch::nn::Linear> layer;
  std::vector<torch::nn::LayerNorm> norm;
  at::Tensor head, mask;
};
using Net = std::shared_ptr<NetImpl>;

Options options_of(int stage, const std::string& job, std::int64_t rank, std::int64_t world) {
  Options options;
  options.stage = stage;
  options.deadline = Seconds(20);
  options.ranks = processes(job_name(job), rank, world);
  return options;
}

at::Tensor batch(std::int64_t width) {
  return at::arange(2 * width, at::kFloat).reshape({2, width}) / static_cast<double>(width);
}

// Losses of two steps and all values after them, as text.
std::string train(Engine& engine, const Net& net, std::int64_t width) {
  std::string said;
  for (int step = 0; step < 2; ++step) {
    const at::Tensor loss = net->forward(batch(width)).square().mean();
    engine.backward(loss);
    engine.step();
    said += std::to_string(loss.item<double>()) + " ";
  }
  auto state = engine.full_state();
  while (const auto item = state.next()) {
    const auto& [name, tensor] = *item;
    said += name + ":" + std::to_string(hash_of(tensor)) + " ";
  }
  return said;
}

TEST_F(BuiltModels, HasTheValuesOfThePlainConstructorAtEveryStage) {
  static constexpr std::int64_t kWidth = 160;  // tensors of 100 KiB
  for (int stage = 0; stage <= 3; ++stage) {
    const auto said = run_processes(3, [&](std::int64_t rank) -> std::string {
      torch::manual_seed(7);
      const auto plain = std::make_shared<NetImpl>(kWidth);
      Engine with_plain(plain, AdamW{}, options_of(stage, "plain", rank, 3));
      const std::string expected = train(with_plain, plain, kWidth);
      with_plain.close();
      torch::manual_seed(7);
      Engine engine(AdamW{}, options_of(stage, "built", rank, 3));
      const Net net = engine.build([] { return std::make_shared<NetImpl>(kWidth); });
      const std::string found = train(engine, net, kWidth);
      return found == expected ? "" : expected + " is not " + found;
    });
    EXPECT_EQ(said, std::vector<std::string>(3)) << "stage " << stage;
  }
}

std::int64_t status_bytes(const std::string& line) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (status >> word) {
    if (word == line) status >> kib;
  }
  return kib * 1024;
}

// Of this process, above what it has: private memory that can be written.
void limit_memory(std::int64_t more) {
  const auto most = static_cast<rlim_t>(status_bytes("VmData:") + more);
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &limit), 0);
}

TEST_F(BuiltModels, MakesAndTrainsAModelThatIsLargerThanMemory) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  static constexpr std::int64_t kWidth = 1024, kWorld = 4;
  static constexpr int kLarge = 32;
  constexpr std::int64_t kTensor = 4 * kWidth * kWidth;
  constexpr std::int64_t kModel = kTensor * (kLarge + 1);
  // AdamW's states of a shard, the cap, the buffer, a gradient, and threads' stacks and the heap.
  constexpr std::int64_t kMost = 2 * kModel / kWorld + 4 * kTensor + (std::int64_t{32} << 20);
  // What ranks share is not limited: parameters and sums.
  constexpr std::int64_t kShared = 2 * kModel / kWorld;
  static_assert(kMost < kModel);
  const auto make = [] { return std::make_shared<NetImpl>(kWidth, kLarge); };
  const auto said = run_processes(kWorld, [&](std::int64_t rank) -> std::string {
    torch::manual_seed(7);
    limit_memory(kMost);
    Engine engine(AdamW{}, options_of(3, "limit", rank, kWorld));
    const Net net = engine.build(make);
    if (engine.memory().total.peak > Bytes(kMost + kShared)) return "the account has more";
    for (int step = 0; step < 2; ++step) {
      engine.backward(net->forward(batch(kWidth)).square().mean());
      engine.step();
    }
    return "";
  });
  EXPECT_EQ(said, std::vector<std::string>(kWorld));
  const auto plain = run_processes(1, [&](std::int64_t /*rank*/) -> std::string {
    limit_memory(kMost);
    make();
    return "fits";
  });
  EXPECT_NE(plain.front().find("memory"), std::string::npos) << plain.front();
}

TEST_F(BuiltModels, SaysWhatDiffersFromRankToRank) {
  struct Case {
    std::function<Net(std::int64_t rank)> make;
    std::string expected;  // in what every rank says
  };
  const auto layers = [](int count) { return std::make_shared<NetImpl>(160, count); };
  const std::vector<Case> cases = {
      {[&](std::int64_t rank) {
         torch::manual_seed(rank == 1 ? 8 : 7);
         return layers(kLayers);
       },
       "random states"},
      {[&](std::int64_t rank) { return layers(rank == 1 ? 2 : kLayers); }, "random states"},
      {[&](std::int64_t rank) {
         at::ones({rank == 1 ? 1 : 2, 65536});
         return layers(kLayers);
       },
       "not made alike on all ranks"},
      {[&](std::int64_t rank) {
         const at::Tensor read = at::zeros({512, 512});
         if (rank == 1) read.data_ptr<float>()[5] = 1;
         const at::Tensor two = at::ones({2, 512, 512}), three = two + 1;
         read.sum();
         return layers(kLayers);
       },
       "not made alike on all ranks"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto said = run_processes(2, [&](std::int64_t rank) -> std::string {
      torch::manual_seed(7);
      Engine engine(AdamW{}, options_of(3, "differs" + std::to_string(i), rank, 2));
      engine.build([&] { return cases[i].make(rank); });
      return "nothing";
    });
    for (const auto& text : said)
      EXPECT_NE(text.find(cases[i].expected), std::string::npos) << text;
  }
}

TEST_F(BuiltModels, ARankThatFailsIsToldToTheOthers) {
  const auto said = run_processes(2, [&](std::int64_t rank) -> std::string {
    torch::manual_seed(7);
    Engine engine(AdamW{}, options_of(3, "fails", rank, 2));
    engine.build([&] {
      auto net = std::make_shared<NetImpl>(160);
      if (rank == 1) throw std::runtime_error("no such file");
      return net;
    });
    return "nothing";
  });
  EXPECT_NE(said[0].find("rank 1"), std::string::npos) << said[0];
  EXPECT_EQ(said[1], "no such file");
}

TEST_F(BuiltModels, MemoryThatIsAwayIsReadInOperatorsOnly) {
  const auto said = run_processes(2, [&](std::int64_t rank) -> std::string {
    torch::manual_seed(7);
    Engine engine(AdamW{}, options_of(3, "away", rank, 2));
    std::string raw;
    engine.build([&] {
      const at::Tensor first = at::ones({256, 256}), second = at::ones({256, 256});
      const at::Tensor third = at::ones({256, 256});
      try {
        first.data_ptr<float>();
      } catch (const c10::Error& error) {
        raw = error.what_without_backtrace();
      }
      if (first.sum().item<float>() != 65536) raw += "other values";
      return std::make_shared<NetImpl>(160);
    });
    return raw;
  });
  for (const auto& text : said) EXPECT_NE(text.find("Engine::build"), std::string::npos) << text;
  for (const auto& text : said) EXPECT_EQ(text.find("other values"), std::string::npos);
}

TEST_F(BuiltModels, AnEngineWithoutAModelSaysSo) {
  Options options;
  options.ranks = ranks_as_threads(1).front();
  Engine engine(AdamW{}, options);
  const auto error_of = [](const auto& what) -> std::string {
    try {
      what();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_NE(error_of([&] { engine.step(); }).find("Engine::build"), std::string::npos);
  const auto make = [] { return std::make_shared<NetImpl>(16, 2); };
  EXPECT_THROW(engine.build([]() -> Net { throw std::runtime_error("first"); }),
               std::runtime_error);
  const Net net = engine.build(make);
  engine.backward(net->forward(batch(16)).square().mean());
  EXPECT_EQ(engine.step().step, 1);
  EXPECT_NE(error_of([&] { engine.build(make); }).find("has a model"), std::string::npos);
}

}  // namespace
}  // namespace shardlight::engine
