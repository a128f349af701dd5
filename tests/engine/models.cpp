#include "models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

#include <stdexcept>

namespace shardlight::engine {
namespace {

namespace nn = torch::nn;

at::Generator generator_of(std::int64_t step, std::int64_t micro_batch) {
  return at::make_generator<at::CPUGeneratorImpl>(
      static_cast<std::uint64_t>(step * 1000 + micro_batch + 1));
}

at::Tensor randn(at::IntArrayRef shape, std::int64_t step, std::int64_t micro_batch) {
  return at::randn(shape, generator_of(step, micro_batch), at::TensorOptions(at::kFloat));
}

at::Tensor tokens(std::int64_t most, at::IntArrayRef shape, std::int64_t step,
                  std::int64_t micro_batch) {
  return at::randint(most, shape, generator_of(step, micro_batch), at::TensorOptions(at::kLong));
}

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
    const at::Tensor x = randn({7, 13}, step, micro_batch);
    return forward(x).square().mean();
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
    const at::Tensor x = tokens(50, {4, 6}, step, micro_batch);
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
    const at::Tensor hidden = at::tanh(first->forward(randn({7, 13}, step, micro_batch)));
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
    const at::Tensor x = randn({3, 1, 8, 8}, step, micro_batch);
    const at::Tensor hidden = at::relu(norm->forward(first->forward(x)));
    return head->forward(at::relu(second->forward(hidden)).flatten(1)).square().mean();
  }
};

// One module used twice, and its output used twice before backward.
struct Twice : Mlp {
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = at::tanh(first->forward(randn({7, 13}, step, micro_batch)));
    const at::Tensor once = at::tanh(second->forward(x));
    const at::Tensor twice = second->forward(once);
    return third->forward(twice + once).square().mean() + third->forward(once).abs().mean();
  }
};

template <class Module>
TestModel model_of(std::uint64_t seed) {
  torch::manual_seed(seed);
  const auto module = std::make_shared<Module>();
  TestModel model{.module = module, .parameters = {}, .buffers = {}, .loss = {}};
  for (const auto& item : module->named_parameters()) {
    model.parameters.emplace_back(item.key(), item.value());
  }
  for (const auto& item : module->named_buffers()) {
    model.buffers.emplace_back(item.key(), item.value());
  }
  model.loss = [module](std::int64_t step, std::int64_t micro_batch) {
    return module->loss(step, micro_batch);
  };
  return model;
}

struct Named {
  std::string name;
  TestModel (*make)(std::uint64_t seed);
};

const std::vector<Named>& models() {
  static const std::vector<Named> kModels = {
      {"mlp", &model_of<Mlp>},       {"tied", &model_of<Tied>}, {"frozen", &model_of<Frozen>},
      {"unused", &model_of<Unused>}, {"cnn", &model_of<Cnn>},   {"twice", &model_of<Twice>},
  };
  return kModels;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Named& model : models()) names.push_back(model.name);
  return names;
}

TestModel make_model(const std::string& name, std::uint64_t seed) {
  for (const Named& model : models()) {
    if (model.name == name) return model.make(seed);
  }
  throw std::invalid_argument("no model " + name);
}

}  // namespace shardlight::engine
