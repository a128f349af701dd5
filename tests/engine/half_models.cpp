// Models with 16-bit parameters: all of them, or beside fp32 ones.
#include <ATen/TensorOperators.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "module_model.h"

namespace shardlight::engine {
namespace {

namespace nn = torch::nn;

// Sizes that no world divides; in fp32 too, to compare with.
template <at::ScalarType type>
struct SmallMlp : nn::Module {
  nn::Linear first{nullptr}, second{nullptr}, third{nullptr};

  SmallMlp() {
    first = register_module("first", nn::Linear(13, 37));
    second = register_module("second", nn::Linear(37, 37));
    third = register_module("third", nn::Linear(37, 5));
    // The same values in each dtype.
    to(at::kBFloat16);
    to(type);
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = normal_batch({7, 13}, step, micro_batch).to(type);
    const at::Tensor hidden = at::tanh(second->forward(at::tanh(first->forward(x))));
    // Small enough for fp16 when it is scaled.
    return third->forward(hidden).square().mean() * 0.01;
  }
};

// bf16 where the work is, fp32 where the sums are; one parameter frozen, one used twice.
struct Mixed : nn::Module {
  nn::Embedding embedding{nullptr};
  nn::Linear hidden{nullptr}, frozen{nullptr}, head{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::BatchNorm1d batch_norm{nullptr};

  Mixed() {
    embedding = register_module("embedding", nn::Embedding(31, 24));
    hidden = register_module("hidden", nn::Linear(24, 24));
    frozen = register_module("frozen", nn::Linear(24, 24));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({24})));
    batch_norm = register_module("batch_norm", nn::BatchNorm1d(24));
    head = register_module("head", nn::Linear(24, 3));
    for (nn::Linear* linear : {&hidden, &frozen}) (*linear)->to(at::kBFloat16);
    embedding->to(at::kBFloat16);
    for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    at::Tensor x = embedding->forward(token_batch(31, {6}, step, micro_batch));
    x = hidden->forward(frozen->forward(at::tanh(hidden->forward(x))));
    x = batch_norm->forward(norm->forward(x.to(at::kFloat)));
    return head->forward(x).square().mean();
  }
};

}  // namespace

std::vector<NamedModel> half_models() {
  return {
      {"fp32", &model_of<SmallMlp<at::kFloat>>},
      {"bf16", &model_of<SmallMlp<at::kBFloat16>>},
      {"fp16", &model_of<SmallMlp<at::kHalf>>},
      {"mixed", &model_of<Mixed>},
  };
}

}  // namespace shardlight::engine
