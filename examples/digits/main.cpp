// Handwritten digits by a convolutional network with batch norm, at ZeRO stage 2:
// shardlight launch -n 2 -- train digits.bin
// Batch norm's statistics are buffers, each rank's own, as with any data parallelism.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "shardlight/engine/engine.h"

namespace {

constexpr std::int64_t kPixels = 64;
constexpr std::int64_t kHeldOut = 360;
constexpr std::int64_t kBatch = 64;
constexpr int kSteps = 120;

struct Digits {
  torch::Tensor images;  // [n, 1, 8, 8], 0 to 1
  torch::Tensor labels;  // [n]
};

Digits read_digits(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const auto count = static_cast<std::int64_t>(bytes.size()) / (kPixels + 1);
  const auto rows =
      torch::from_blob(const_cast<char*>(bytes.data()), {count, kPixels + 1}, torch::kUInt8);
  return {rows.narrow(1, 0, kPixels).to(torch::kFloat).div(16).view({count, 1, 8, 8}),
          rows.select(1, kPixels).to(torch::kLong)};
}

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
}

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv1 = register_module("conv1", convolution(1, 16));
  torch::nn::BatchNorm2d norm1 = register_module("norm1", torch::nn::BatchNorm2d(16));
  torch::nn::Conv2d conv2 = register_module("conv2", convolution(16, 32));
  torch::nn::BatchNorm2d norm2 = register_module("norm2", torch::nn::BatchNorm2d(32));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32 * 4 * 4, 10));

  torch::Tensor forward(const torch::Tensor& images) {
    const auto first = torch::relu(norm1(conv1(images)));
    const auto second = torch::max_pool2d(torch::relu(norm2(conv2(first))), 2);
    return out(second.flatten(1));
  }
};

double accuracy(Net& model, const Digits& digits) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  const auto guessed = model.forward(digits.images).argmax(1);
  model.train();
  return guessed.eq(digits.labels).to(torch::kDouble).mean().item<double>();
}

int run(const char* path) {
  const Digits all = read_digits(path);
  const std::int64_t training = all.labels.size(0) - kHeldOut;
  if (training < kBatch) {
    std::fprintf(stderr, "%s: no digits; examples/digits/export.py writes them\n", path);
    return 2;
  }
  torch::manual_seed(1);
  auto model = std::make_shared<Net>();
  shardlight::Engine engine(model, shardlight::SGD{.lr = 0.05, .momentum = 0.9}, {.stage = 2});
  torch::manual_seed(100 + engine.rank().value());
  for (int step = 1; step <= kSteps; ++step) {
    const auto chosen = torch::randint(training, {kBatch}, torch::kLong);
    const auto loss = torch::cross_entropy_loss(model->forward(all.images.index_select(0, chosen)),
                                                all.labels.index_select(0, chosen));
    engine.backward(loss);
    engine.step();
    if (engine.rank().value() == 0 && step % 40 == 0) {
      std::printf("step %d loss %.2f\n", step, loss.item<double>());
    }
  }
  const double right = accuracy(
      *model, {all.images.narrow(0, training, kHeldOut), all.labels.narrow(0, training, kHeldOut)});
  if (engine.rank().value() == 0) std::printf("held out: %.1f %% right\n", 100 * right);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "digits.bin");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
