#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformerlayer.h>

#include "module_model.h"

namespace shardlight::engine {
namespace {

namespace nn = torch::nn;

// Its weights go into one operator as a list.
struct Lstm : nn::Module {
  nn::LSTM lstm{nullptr};
  nn::Linear head{nullptr};

  Lstm() {
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(5, 9).num_layers(2)));
    head = register_module("head", nn::Linear(9, 4));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const auto output = std::get<0>(lstm->forward(normal_batch({6, 3, 5}, step, micro_batch)));
    return head->forward(output).square().mean();
  }
};

// Torch's own layer: MultiheadAttention with one weight for query, key and value.
struct Encoder : nn::Module {
  nn::TransformerEncoderLayer layer{nullptr};
  nn::Linear head{nullptr};

  Encoder() {
    layer = register_module(
        "layer", nn::TransformerEncoderLayer(
                     nn::TransformerEncoderLayerOptions(12, 3).dim_feedforward(20).dropout(0)));
    head = register_module("head", nn::Linear(12, 3));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = normal_batch({5, 2, 12}, step, micro_batch);
    return head->forward(layer->forward(x)).square().mean();
  }
};

// A block of a GPT: scaled_dot_product_attention between two projections of its own.
struct Attention : nn::Module {
  nn::LayerNorm norm{nullptr};
  nn::Linear queries_keys_values{nullptr}, out{nullptr};

  Attention() {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({16})));
    queries_keys_values = register_module("queries_keys_values", nn::Linear(16, 48));
    out = register_module("out", nn::Linear(16, 16));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto heads = [&](const at::Tensor& t) { return t.view({2, -1, 4, 4}).transpose(1, 2); };
    const auto parts = queries_keys_values->forward(norm->forward(x)).chunk(3, -1);
    const at::Tensor mixed = at::scaled_dot_product_attention(
        heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0.0, /*is_causal=*/true);
    return x + out->forward(mixed.transpose(1, 2).reshape({2, -1, 16}));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    return forward(normal_batch({2, 7, 16}, step, micro_batch)).square().mean();
  }
};

struct Half : nn::Module {
  nn::Embedding tokens{nullptr};
  nn::Linear layer{nullptr};

  explicit Half(const nn::Embedding& shared) {
    tokens = register_module("tokens", shared);
    layer = register_module("layer", nn::Linear(10, 10));
  }
  at::Tensor forward(const at::Tensor& x) { return at::gelu(layer->forward(tokens->forward(x))); }
};

// An encoder and a decoder that own the same embedding, which is the head as well.
struct EncoderDecoder : nn::Module {
  nn::Embedding shared{nullptr};
  std::shared_ptr<Half> encoder, decoder;
  nn::MultiheadAttention across{nullptr};

  EncoderDecoder() {
    shared = register_module("shared", nn::Embedding(30, 10));
    encoder = register_module("encoder", std::make_shared<Half>(shared));
    decoder = register_module("decoder", std::make_shared<Half>(shared));
    across = register_module("across", nn::MultiheadAttention(10, 2));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor source = token_batch(30, {6, 2}, step, micro_batch);
    const at::Tensor target = token_batch(30, {4, 2}, step + 500, micro_batch);
    const at::Tensor memory = encoder->forward(source);
    const at::Tensor hidden = decoder->forward(target);
    const at::Tensor mixed = std::get<0>(across->forward(hidden, memory, memory)) + hidden;
    const at::Tensor logits = at::linear(mixed, shared->weight);
    return nn::functional::cross_entropy(logits.view({-1, 30}), target.reshape({-1}));
  }
};

}  // namespace

std::vector<NamedModel> sequence_models() {
  return {
      {"lstm", &model_of<Lstm>},
      {"encoder", &model_of<Encoder>},
      {"attention", &model_of<Attention>},
      {"encoder_decoder", &model_of<EncoderDecoder>},
  };
}

}  // namespace shardlight::engine
