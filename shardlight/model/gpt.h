// The main job's model: a GPT-2 as a plain torch module, with transformers' names and shapes, so
// that `shardlight plan` knows its table without torch and its weights go into theirs. Knows
// nothing of the engine. Not for speed records: no cache of keys and values.
// One thread at a time, as every module.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace shardlight::model {

struct GptOptions {
  std::int64_t vocabulary = 256;
  std::int64_t positions = 128;  // the longest sequence
  std::int64_t hidden = 128;     // a multiple of heads
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  bool tied = true;    // the output's weight is the embedding's
  double dropout = 0;  // share that is zeroed while it trains
};

class Gpt final : public torch::nn::Module {
 public:
  // Weights by GPT-2's rule: normal with deviation 0.02, those that end a residual branch divided
  // by sqrt(2 layers), biases 0; from a generator of its own, so that equal seeds give equal bits.
  Gpt(const GptOptions& options, std::uint64_t seed);
  ~Gpt() override;
  Gpt(const Gpt&) = delete;
  Gpt(Gpt&&) = delete;
  Gpt& operator=(const Gpt&) = delete;
  Gpt& operator=(Gpt&&) = delete;

  // Tokens [batch, sequence], whole numbers below the vocabulary; sequence <= positions. Gives
  // logits [batch, sequence, vocabulary].
  at::Tensor forward(const at::Tensor& tokens);
  // The mean cross entropy, in nats, of each token after the first given those before it; tokens
  // [batch, sequence + 1].
  at::Tensor loss(const at::Tensor& tokens);

  const GptOptions& options() const { return options_; }

 private:
  class Body;
  class Head;

  GptOptions options_;
  std::shared_ptr<Body> body_;
  std::shared_ptr<Head> head_;  // none where tied
};

struct GenerateOptions {
  std::int64_t tokens = 200;  // to write
  double temperature = 1;     // 0: always the likeliest
  std::uint64_t seed = 0;     // of a generator of its own
};

// Goes on from `prompt` (at least one token), seeing at most the last `positions` tokens. Gives
// what was written, without the prompt. The model is in evaluation meanwhile, and no gradients are
// kept.
std::vector<std::int64_t> generate(Gpt& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options);

}  // namespace shardlight::model
