#include "shardlight/model/gpt.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <string>

namespace shardlight::model {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kNormEpsilon = 1e-5;

// Of one model while it is built.
struct Initial {
  at::Generator generator;
  double residual_deviation;

  at::Tensor normal(at::IntArrayRef shape, double deviation) {
    return at::empty(shape).normal_(0, deviation, generator);
  }
};

class Norm final : public torch::nn::Module {
 public:
  explicit Norm(std::int64_t width)
      : weight_(register_parameter("weight", at::ones({width}))),
        bias_(register_parameter("bias", at::zeros({width}))) {}

  at::Tensor forward(const at::Tensor& x) const {
    return at::layer_norm(x, weight_.sizes(), weight_, bias_, kNormEpsilon);
  }

 private:
  at::Tensor weight_, bias_;
};

class Embedding final : public torch::nn::Module {
 public:
  Embedding(std::int64_t entries, std::int64_t width, Initial& initial)
      : weight_(register_parameter("weight", initial.normal({entries, width}, kDeviation))) {}

  at::Tensor forward(const at::Tensor& index) const { return at::embedding(weight_, index); }
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

// GPT-2's linear: its weight is [inputs, outputs].
class Conv1D final : public torch::nn::Module {
 public:
  Conv1D(std::int64_t inputs, std::int64_t outputs, double deviation, Initial& initial)
      : weight_(register_parameter("weight", initial.normal({inputs, outputs}, deviation))),
        bias_(register_parameter("bias", at::zeros({outputs}))) {}

  at::Tensor forward(const at::Tensor& x) const {
    return at::addmm(bias_, x.flatten(0, 1), weight_).view({x.size(0), x.size(1), -1});
  }

 private:
  at::Tensor weight_, bias_;
};

class Attention final : public torch::nn::Module {
 public:
  Attention(const GptOptions& options, Initial& initial)
      : heads_(options.heads), dropout_(options.dropout) {
    const std::int64_t width = options.hidden;
    c_attn_ =
        register_module("c_attn", std::make_shared<Conv1D>(width, 3 * width, kDeviation, initial));
    c_proj_ = register_module(
        "c_proj", std::make_shared<Conv1D>(width, width, initial.residual_deviation, initial));
  }

  at::Tensor forward(const at::Tensor& x) const {
    const auto parts = c_attn_->forward(x).chunk(3, 2);
    const auto by_head = [&](const at::Tensor& part) {
      return part.view({x.size(0), x.size(1), heads_, -1}).transpose(1, 2);
    };
    const at::Tensor mixed =
        at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]),
                                         {}, is_training() ? dropout_ : 0.0, true);
    const at::Tensor out = c_proj_->forward(mixed.transpose(1, 2).reshape(x.sizes()));
    return at::dropout(out, dropout_, is_training());
  }

 private:
  std::int64_t heads_;
  double dropout_;
  std::shared_ptr<Conv1D> c_attn_, c_proj_;
};

class Mlp final : public torch::nn::Module {
 public:
  Mlp(const GptOptions& options, Initial& initial) : dropout_(options.dropout) {
    const std::int64_t width = options.hidden;
    c_fc_ =
        register_module("c_fc", std::make_shared<Conv1D>(width, 4 * width, kDeviation, initial));
    c_proj_ = register_module(
        "c_proj", std::make_shared<Conv1D>(4 * width, width, initial.residual_deviation, initial));
  }

  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor inner = at::gelu(c_fc_->forward(x), "tanh");
    return at::dropout(c_proj_->forward(inner), dropout_, is_training());
  }

 private:
  double dropout_;
  std::shared_ptr<Conv1D> c_fc_, c_proj_;
};

class Block final : public torch::nn::Module {
 public:
  Block(const GptOptions& options, Initial& initial) {
    ln_1_ = register_module("ln_1", std::make_shared<Norm>(options.hidden));
    attn_ = register_module("attn", std::make_shared<Attention>(options, initial));
    ln_2_ = register_module("ln_2", std::make_shared<Norm>(options.hidden));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(options, initial));
  }

  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor attended = x + attn_->forward(ln_1_->forward(x));
    return attended + mlp_->forward(ln_2_->forward(attended));
  }

 private:
  std::shared_ptr<Norm> ln_1_, ln_2_;
  std::shared_ptr<Attention> attn_;
  std::shared_ptr<Mlp> mlp_;
};

// A list of modules is a module whose children have numbers for names.
class Blocks final : public torch::nn::Module {
 public:
  Blocks(const GptOptions& options, Initial& initial) {
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      blocks_.push_back(
          register_module(std::to_string(layer), std::make_shared<Block>(options, initial)));
    }
  }

  at::Tensor forward(at::Tensor x) const {
    for (const auto& block : blocks_) x = block->forward(x);
    return x;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace

class Gpt::Body final : public torch::nn::Module {
 public:
  Body(const GptOptions& options, Initial& initial) : dropout_(options.dropout) {
    wte_ = register_module(
        "wte", std::make_shared<Embedding>(options.vocabulary, options.hidden, initial));
    wpe_ = register_module("wpe",
                           std::make_shared<Embedding>(options.positions, options.hidden, initial));
    h_ = register_module("h", std::make_shared<Blocks>(options, initial));
    ln_f_ = register_module("ln_f", std::make_shared<Norm>(options.hidden));
  }

  at::Tensor forward(const at::Tensor& tokens) const {
    const at::Tensor places = at::arange(tokens.size(1), tokens.options());
    const at::Tensor embedded = wte_->forward(tokens) + wpe_->forward(places);
    return ln_f_->forward(h_->forward(at::dropout(embedded, dropout_, is_training())));
  }
  const at::Tensor& embedding() const { return wte_->weight(); }

 private:
  double dropout_;
  std::shared_ptr<Embedding> wte_, wpe_;
  std::shared_ptr<Blocks> h_;
  std::shared_ptr<Norm> ln_f_;
};

class Gpt::Head final : public torch::nn::Module {
 public:
  Head(const GptOptions& options, Initial& initial)
      : weight_(register_parameter(
            "weight", initial.normal({options.vocabulary, options.hidden}, kDeviation))) {}

  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

Gpt::Gpt(const GptOptions& options, std::uint64_t seed) : options_(options) {
  Initial initial{at::detail::createCPUGenerator(seed),
                  kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers))};
  body_ = register_module("transformer", std::make_shared<Body>(options, initial));
  if (!options.tied) head_ = register_module("lm_head", std::make_shared<Head>(options, initial));
}

Gpt::~Gpt() = default;

at::Tensor Gpt::forward(const at::Tensor& tokens) {
  return at::linear(body_->forward(tokens), head_ ? head_->weight() : body_->embedding());
}

at::Tensor Gpt::loss(const at::Tensor& tokens) {
  const std::int64_t sequence = tokens.size(1) - 1;
  const at::Tensor logits = forward(tokens.narrow(1, 0, sequence));
  return at::cross_entropy_loss(logits.flatten(0, 1), tokens.narrow(1, 1, sequence).reshape({-1}));
}

std::vector<std::int64_t> generate(Gpt& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options) {
  const at::NoGradGuard no_gradients;
  const bool trained = model.is_training();
  model.eval();
  const at::Generator generator = at::detail::createCPUGenerator(options.seed);
  std::vector<std::int64_t> tokens = prompt;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto seen =
        std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(model.options().positions));
    const at::Tensor context =
        at::tensor(at::ArrayRef<std::int64_t>(tokens.data() + tokens.size() - seen, seen));
    const at::Tensor logits = model.forward(context.unsqueeze(0)).select(1, -1).squeeze(0);
    const at::Tensor next =
        options.temperature > 0
            ? at::multinomial(at::softmax(logits / options.temperature, -1), 1, false, generator)
            : at::argmax(logits);
    tokens.push_back(next.item<std::int64_t>());
  }
  model.train(trained);
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

}  // namespace shardlight::model
