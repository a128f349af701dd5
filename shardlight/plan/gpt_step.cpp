#include "shardlight/plan/gpt_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace shardlight::plan {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kIndex = 8;

// Parameters of GPT-2's table: two before the blocks, twelve a block, then the last norm's two.
constexpr std::size_t kTokens = 0, kPlaces = 1, kFirstBlock = 2, kOfBlock = 12;
constexpr std::size_t kNorm1 = 0, kAttention = 2, kProjection = 4, kNorm2 = 6, kInner = 8,
                      kOuter = 10;

// By the order of their allocation.
using TensorIndex = std::size_t;

struct NormSaved {
  TensorIndex input = 0, mean = 0, deviation = 0;
};

struct BlockSaved {
  NormSaved norm_1, norm_2;
  TensorIndex normed_1 = 0, parts = 0, mixed = 0, log_sums = 0;
  TensorIndex normed_2 = 0, inner = 0, gelu = 0;
  // With dropout: attention's own tensors, which are then kept one by one, and the two masks.
  TensorIndex queries = 0, keys = 0, values = 0;
  TensorIndex softmax = 0, softmax_mask = 0, dropped = 0;
  TensorIndex attention_mask = 0, outer_mask = 0;
};

class Walk {
 public:
  explicit Walk(const GptStep& step)
      : step_(step),
        rows_(step.micro_batch * step.sequence),
        wide_(rows_ * step.hidden * kFloat),
        vector_(step.hidden * kFloat),
        square_(step.hidden * vector_),
        logits_(rows_ * step.vocabulary * kFloat) {}

  std::vector<StepEvent> events() {
    embed();
    for (BlockSaved& block : blocks_) x_ = forward(block, x_);
    loss();
    loss_backward();
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      backward(blocks_[i], kFirstBlock + i * kOfBlock);
    }
    embed_backward();
    return std::move(events_);
  }

 private:
  TensorIndex take(std::int64_t bytes) {
    events_.push_back(
        {.kind = StepEventKind::kTake, .tensor = sizes_.size(), .bytes = Bytes(bytes)});
    sizes_.emplace_back(bytes);
    return sizes_.size() - 1;
  }
  void give(TensorIndex tensor) {
    events_.push_back({.kind = StepEventKind::kGive, .tensor = tensor, .bytes = sizes_[tensor]});
  }
  void give_all(std::initializer_list<TensorIndex> tensors) {
    for (const TensorIndex tensor : tensors) give(tensor);
  }
  void workspace(std::int64_t bytes) { give(take(bytes)); }
  void gradient(TensorIndex tensor, layout::ParameterIndex parameter) {
    events_.push_back({.kind = StepEventKind::kGradient,
                       .tensor = tensor,
                       .bytes = sizes_[tensor],
                       .parameter = parameter});
  }

  // The tokens are a part of each row of a batch one longer, so what needs them in one piece copies
  // them; of a single row they are in one.
  bool copies_tokens() const { return step_.micro_batch > 1; }
  std::int64_t tokens_bytes() const { return rows_ * kIndex; }

  // Flash attention's blocks of queries and keys, by torch's rule.
  std::int64_t query_block() const {
    const std::int64_t block = step_.sequence >= 768 ? 256 : step_.sequence >= 192 ? 64 : 32;
    return std::min(block, step_.sequence);
  }
  std::int64_t key_block() const { return std::min<std::int64_t>(512, step_.sequence); }

  TensorIndex norm(NormSaved& saved, TensorIndex input) {
    const TensorIndex out = take(wide_);
    saved = {.input = input, .mean = take(rows_ * kFloat), .deviation = take(rows_ * kFloat)};
    return out;
  }

  void embed() {
    places_ = take(step_.sequence * kIndex);
    const TensorIndex by_place = take(step_.sequence * vector_);
    const TensorIndex copied = copies_tokens() ? take(tokens_bytes()) : 0;
    const TensorIndex by_token = take(wide_);
    if (copies_tokens()) give(copied);
    x_ = take(wide_);
    give_all({by_token, by_place});
    if (!step_.dropout) return;
    embedded_ = x_;
    embedded_mask_ = take(wide_);
    x_ = take(wide_);
  }

  // Gives what is left of the input.
  TensorIndex drop(TensorIndex& mask, TensorIndex input) {
    if (!step_.dropout) return input;
    mask = take(wide_);
    const TensorIndex out = take(wide_);
    give(input);
    return out;
  }

  // By flash attention, which keeps its inputs and output.
  void attend(BlockSaved& saved) {
    saved.mixed = take(wide_);
    saved.log_sums = take(rows_ * step_.heads * kFloat);
    const std::int64_t head = step_.hidden / step_.heads;
    workspace(step_.threads * query_block() * (key_block() + 2 + head) * kFloat);
  }

  // Torch's flash attention on the CPU has no dropout; it then goes by matrices of all scores.
  void attend_with_dropout(BlockSaved& saved) {
    const std::int64_t square = step_.sequence * step_.sequence;
    const TensorIndex scaled_queries = take(wide_);
    const TensorIndex ones = take(square);
    const TensorIndex lower = take(square);
    give(ones);
    const TensorIndex causal = take(square * kFloat);
    give(lower);
    const TensorIndex scaled_keys = take(wide_);
    saved.queries = take(wide_);
    saved.keys = take(wide_);
    const TensorIndex scores = take(scores_bytes());
    give(scaled_keys);
    saved.softmax = take(scores_bytes());
    const TensorIndex infinite = take(scores_bytes() / kFloat);
    workspace(rows_ * step_.heads);
    give_all({infinite, scores});
    saved.softmax_mask = take(scores_bytes());
    saved.dropped = take(scores_bytes());
    saved.values = take(wide_);
    const TensorIndex by_head = take(wide_);
    give_all({scaled_queries, causal});
    saved.mixed = take(wide_);
    give_all({by_head, saved.parts});
  }
  std::int64_t scores_bytes() const { return rows_ * step_.heads * step_.sequence * kFloat; }

  TensorIndex forward(BlockSaved& saved, TensorIndex x) {
    saved.normed_1 = norm(saved.norm_1, x);
    saved.parts = take(3 * wide_);
    if (step_.dropout) {
      attend_with_dropout(saved);
    } else {
      attend(saved);
    }
    const TensorIndex projected = drop(saved.attention_mask, take(wide_));
    const TensorIndex attended = take(wide_);
    give(projected);
    saved.normed_2 = norm(saved.norm_2, attended);
    saved.inner = take(4 * wide_);
    saved.gelu = take(4 * wide_);
    const TensorIndex outer = drop(saved.outer_mask, take(wide_));
    const TensorIndex out = take(wide_);
    give(outer);
    return out;
  }

  void loss() {
    normed_ = norm(last_norm_, x_);
    if (step_.dropout) give(embedded_);
    const TensorIndex logits = take(logits_);
    if (copies_tokens()) targets_ = take(tokens_bytes());
    log_softmax_ = take(logits_);
    loss_ = take(kFloat);
    weights_ = take(kFloat);
    give(logits);
    seed_ = take(kFloat);
  }

  void loss_backward() {
    const TensorIndex of_log_softmax = take(logits_);
    if (copies_tokens()) give(targets_);
    give(weights_);
    const TensorIndex of_logits = take(logits_);
    give_all({of_log_softmax, log_softmax_});
    head_ = take(step_.vocabulary * vector_);
    const TensorIndex of_normed = take(wide_);
    give_all({of_logits, normed_});
    const layout::ParameterIndex last = kFirstBlock + blocks_.size() * kOfBlock;
    if (!step_.tied) gradient(head_, last + 2);
    residual_ = norm_backward(last_norm_, of_normed, last, false);
  }

  // Gives the gradient of its input, or adds it to the residual's.
  TensorIndex norm_backward(const NormSaved& saved, TensorIndex of_out,
                            layout::ParameterIndex weight, bool adds) {
    const TensorIndex of_input = take(wide_);
    const TensorIndex of_weight = take(vector_);
    const TensorIndex of_bias = take(vector_);
    workspace(step_.threads * 2 * vector_);
    give_all({of_out, saved.input, saved.mean, saved.deviation});
    if (adds) give(of_input);
    gradient(of_weight, weight);
    gradient(of_bias, weight + 1);
    return of_input;
  }

  // Of a linear: gives the gradient of its input. `gives` are let go once both are computed: what
  // it was the last to need.
  TensorIndex linear_backward(std::int64_t input, std::int64_t weight, std::int64_t bias,
                              std::initializer_list<TensorIndex> gives,
                              layout::ParameterIndex parameter) {
    const TensorIndex of_input = take(input);
    const TensorIndex of_weight = take(weight);
    const TensorIndex of_bias = take(bias);
    give_all(gives);
    gradient(of_bias, parameter + 1);
    gradient(of_weight, parameter);
    return of_input;
  }

  // The gradient of what dropout had, from that of what it gave, which is another's.
  std::optional<TensorIndex> drop_backward(TensorIndex mask) {
    if (!step_.dropout) return std::nullopt;
    const TensorIndex of_input = take(wide_);
    give(mask);
    return of_input;
  }
  void give(std::optional<TensorIndex> tensor) {
    if (tensor) give(*tensor);
  }

  void backward(const BlockSaved& saved, layout::ParameterIndex first) {
    const auto of_outer = drop_backward(saved.outer_mask);
    const TensorIndex of_gelu =
        linear_backward(4 * wide_, 4 * square_, vector_, {saved.gelu}, first + kOuter);
    give(of_outer);
    const TensorIndex of_inner = take(4 * wide_);
    give_all({of_gelu, saved.inner});
    const TensorIndex of_normed_2 = linear_backward(wide_, 4 * square_, 4 * vector_,
                                                    {of_inner, saved.normed_2}, first + kInner);
    norm_backward(saved.norm_2, of_normed_2, first + kNorm2, true);
    const auto of_projected = drop_backward(saved.attention_mask);
    const TensorIndex of_mixed = linear_backward(wide_, square_, vector_, {}, first + kProjection);
    give(of_projected);
    const std::array<TensorIndex, 3> of_parts = step_.dropout
                                                    ? attend_backward_with_dropout(saved, of_mixed)
                                                    : attend_backward(saved, of_mixed);
    const TensorIndex joined = take(3 * wide_);
    for (const TensorIndex part : of_parts) give(part);
    const TensorIndex of_normed_1 = linear_backward(wide_, 3 * square_, 3 * vector_,
                                                    {joined, saved.normed_1}, first + kAttention);
    norm_backward(saved.norm_1, of_normed_1, first + kNorm1, true);
  }

  std::array<TensorIndex, 3> attend_backward(const BlockSaved& saved, TensorIndex of_mixed) {
    const std::array<TensorIndex, 3> of_parts = {take(wide_), take(wide_), take(wide_)};
    workspace(step_.threads * 2 * query_block() * key_block() * kFloat);
    // Its output is the projection's input too.
    give_all({of_mixed, saved.parts, saved.log_sums, saved.mixed});
    return of_parts;
  }

  std::array<TensorIndex, 3> attend_backward_with_dropout(const BlockSaved& saved,
                                                          TensorIndex of_mixed) {
    give(saved.mixed);
    const TensorIndex by_head = take(wide_);
    give(of_mixed);
    const TensorIndex of_values = take(wide_);
    const TensorIndex of_dropped = take(scores_bytes());
    give_all({by_head, saved.values, saved.dropped});
    const TensorIndex of_softmax = take(scores_bytes());
    give_all({of_dropped, saved.softmax_mask});
    const TensorIndex of_scores = take(scores_bytes());
    give_all({of_softmax, saved.softmax});
    const TensorIndex of_queries = take(wide_);
    const TensorIndex of_keys = take(wide_);
    give_all({of_scores, saved.keys, saved.queries});
    // Each is scaled or laid out anew, the keys' twice.
    const auto anew = [&](TensorIndex tensor) {
      const TensorIndex out = take(wide_);
      give(tensor);
      return out;
    };
    return {anew(of_queries), anew(anew(of_keys)), anew(of_values)};
  }

  // A tied output's gradient has waited all the way for the embedding's.
  void embed_backward() {
    if (const auto of_embedded = drop_backward(embedded_mask_)) {
      give(residual_);
      residual_ = *of_embedded;
    }
    const TensorIndex of_places = take(step_.sequence * vector_);
    TensorIndex of_tokens = take(step_.vocabulary * vector_);
    if (copies_tokens()) workspace(tokens_bytes());
    give(residual_);
    if (step_.tied) {
      const TensorIndex both = take(step_.vocabulary * vector_);
      give_all({head_, of_tokens});
      of_tokens = both;
    }
    gradient(of_tokens, kTokens);
    const TensorIndex of_all_places = take(step_.positions * vector_);
    give_all({of_places, places_});
    gradient(of_all_places, kPlaces);
    give_all({loss_, seed_});
  }

  const GptStep& step_;
  std::int64_t rows_;
  std::int64_t wide_;    // bytes of [micro-batch, sequence, hidden]
  std::int64_t vector_;  // of [hidden]
  std::int64_t square_;  // of [hidden, hidden]
  std::int64_t logits_;
  std::vector<StepEvent> events_;
  std::vector<Bytes> sizes_;  // by tensor
  std::vector<BlockSaved> blocks_ = std::vector<BlockSaved>(static_cast<std::size_t>(step_.layers));
  NormSaved last_norm_;
  TensorIndex places_ = 0, x_ = 0, normed_ = 0, targets_ = 0, log_softmax_ = 0;
  TensorIndex loss_ = 0, weights_ = 0, seed_ = 0;  // the cross entropy, its weights, backward's 1
  TensorIndex head_ = 0, residual_ = 0;
  TensorIndex embedded_ = 0, embedded_mask_ = 0;  // with dropout
};

}  // namespace

Result<std::vector<StepEvent>> gpt_step(const GptStep& step) {
  const std::array<std::pair<const char*, std::int64_t>, 8> sizes = {{
      {"vocabulary", step.vocabulary},
      {"positions", step.positions},
      {"hidden", step.hidden},
      {"layers", step.layers},
      {"heads", step.heads},
      {"micro_batch", step.micro_batch},
      {"sequence", step.sequence},
      {"threads", step.threads},
  }};
  for (const auto& [field, value] : sizes) {
    if (value < 1) return user_error(field, fmt::to_string(value), "1 or more");
  }
  const bool copies = step.micro_batch > 1 && step.heads > 1 && step.sequence > 1;
  if (step.dropout && !copies) {
    return user_error("dropout", "above 0",
                      "0, or more than one sequence, head and token: else attention copies less, "
                      "which the account does not know");
  }
  return Walk(step).events();
}

}  // namespace shardlight::plan
