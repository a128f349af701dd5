#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "module_model.h"

namespace shardlight::engine {
namespace {

namespace nn = torch::nn;

// Sizes that no world divides.
struct Mlp : nn::Module {
  nn::Linear first{nullptr}, second{nullptr}, third{nullptr};

  Mlp() {
    first = register_module("first", nn::Linear(13, 37));
    second = register_module("second", nn::Linear(37, 37));
    third = register_module("third", nn::Linear(37, 5));
  }
  at::Tensor forward(const at::Tensor& x) {
    return third->forward(at::tanh(second->forward(at::tanh(first->forward(x)))));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    return forward(normal_batch({7, 13}, step, micro_batch)).square().mean();
  }
};

// The embedding is used at both ends, once through another name.
struct Tied : nn::Module {
  nn::Embedding embedding{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear middle{nullptr};
  at::Tensor head;

  Tied() {
    embedding = register_module("embedding", nn::Embedding(50, 24));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({24})));
    middle = register_module("middle", nn::Linear(24, 24));
    head = register_parameter("head", embedding->weight);
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = token_batch(50, {4, 6}, step, micro_batch);
    const at::Tensor hidden = norm->forward(at::gelu(middle->forward(embedding->forward(x))));
    const at::Tensor logits = at::linear(hidden, head).view({-1, 50});
    return nn::functional::cross_entropy(logits, x.view({-1}));
  }
};

struct Frozen : Mlp {
  Frozen() {
    second->weight.set_requires_grad(false);
    first->bias.set_requires_grad(false);
  }
};

// `never` is used by no rank, `second` only by even micro-batches: the others skip it.
struct Unused : Mlp {
  nn::Linear never{nullptr};

  Unused() { never = register_module("never", nn::Linear(11, 3)); }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor hidden = at::tanh(first->forward(normal_batch({7, 13}, step, micro_batch)));
    const bool skips = micro_batch % 2 != 0;
    return third->forward(skips ? hidden : at::tanh(second->forward(hidden))).square().mean();
  }
};

struct Cnn : nn::Module {
  nn::Conv2d first{nullptr}, second{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear head{nullptr};

  Cnn() {
    first = register_module("first", nn::Conv2d(nn::Conv2dOptions(1, 6, 3)));
    norm = register_module("norm", nn::BatchNorm2d(6));
    second = register_module("second", nn::Conv2d(nn::Conv2dOptions(6, 5, 3)));
    head = register_module("head", nn::Linear(5 * 4 * 4, 10));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = normal_batch({3, 1, 8, 8}, step, micro_batch);
    const at::Tensor hidden = at::relu(norm->forward(first->forward(x)));
    return head->forward(at::relu(second->forward(hidden)).flatten(1)).square().mean();
  }
};

// One module used twice, and its output used twice before backward.
struct Twice : Mlp {
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = at::tanh(first->forward(normal_batch({7, 13}, step, micro_batch)));
    const at::Tensor once = at::tanh(second->forward(x));
    const at::Tensor twice = second->forward(once);
    return third->forward(twice + once).square().mean() + third->forward(once).abs().mean();
  }
};

// The whole model goes forward twice before it goes backward.
struct Siamese : Mlp {
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor left = forward(normal_batch({5, 13}, step, micro_batch));
    const at::Tensor right = forward(normal_batch({5, 13}, step + 500, micro_batch));
    return (left - right).square().mean();
  }
};

// Every parameter is used in forward and in backward, the first too, and has 96 blocks of 64
// elements, which 1, 2, 3 and 4 ranks divide.
struct Even : nn::Module {
  std::vector<nn::Linear> layers;

  Even() {
    for (int i = 0; i < 4; ++i) {
      const nn::LinearOptions options =
          i % 2 == 0 ? nn::LinearOptions(64, 96) : nn::LinearOptions(96, 64);
      layers.push_back(register_module("layer" + std::to_string(i),
                                       nn::Linear(nn::LinearOptions(options).bias(false))));
    }
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    at::Tensor x = normal_batch({3, 64}, step, micro_batch).requires_grad_();
    for (nn::Linear& layer : layers) x = at::tanh(layer->forward(x));
    return x.square().mean();
  }
};

struct Dropped : Mlp {
  nn::Dropout dropout{nullptr};

  Dropped() { dropout = register_module("dropout", nn::Dropout(0.5)); }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = at::tanh(first->forward(normal_batch({7, 13}, step, micro_batch)));
    return third->forward(second->forward(dropout->forward(x))).square().mean();
  }
};

}  // namespace

std::vector<NamedModel> random_models() { return {{"dropout", &model_of<Dropped>}}; }

std::vector<NamedModel> dense_models() {
  return {
      {"mlp", &model_of<Mlp>},         {"tied", &model_of<Tied>},     {"frozen", &model_of<Frozen>},
      {"cnn", &model_of<Cnn>},         {"unused", &model_of<Unused>}, {"twice", &model_of<Twice>},
      {"siamese", &model_of<Siamese>}, {"even", &model_of<Even>},
  };
}

}  // namespace shardlight::engine
