#include <fmt/format.h>

#include <array>
#include <utility>

#include "shardlight/plan/hf_families.h"
#include "shardlight/plan/hf_table.h"

namespace shardlight::plan {
namespace {

enum Head : std::size_t { kLanguage, kBase, kDouble, kSequence, kToken, kQuestion };
const std::array<std::string, 6> kArchitectures = {
    "GPT2LMHeadModel",
    "GPT2Model",
    "GPT2DoubleHeadsModel",
    "GPT2ForSequenceClassification",
    "GPT2ForTokenClassification",
    "GPT2ForQuestionAnswering",
};

constexpr Key kHidden = {"n_embd", "hidden_size"};
constexpr Key kHeads = {"n_head", "num_attention_heads"};
constexpr Key kLayers = {"n_layer", "num_hidden_layers"};
constexpr Key kPositions = {"n_positions", "max_position_embeddings"};

void add_block(TableBuilder& table, const std::string& block, std::int64_t hidden,
               std::int64_t inner) {
  table.layer_norm(block + ".ln_1", hidden);
  table.conv1d(block + ".attn.c_attn", hidden, 3 * hidden);
  table.conv1d(block + ".attn.c_proj", hidden, hidden);
  table.layer_norm(block + ".ln_2", hidden);
  table.conv1d(block + ".mlp.c_fc", hidden, inner);
  table.conv1d(block + ".mlp.c_proj", inner, hidden);
}

Status add_language_head(TableBuilder& table, const HfValues& config, const std::string& base,
                         const TransformerShape& shape) {
  SHARDLIGHT_TRY(const bool tied, config.flag_or("tie_word_embeddings", true));
  if (tied) {
    table.tied(base + "wte.weight", "lm_head.weight");
  } else {
    table.linear("lm_head", shape.hidden, shape.vocabulary, false);
  }
  return {};
}

// GPT2SequenceSummary. GPT2DoubleHeadsModel sets num_labels to 1 before it builds this.
Status add_choice_head(TableBuilder& table, const HfValues& config, std::int64_t hidden) {
  SHARDLIGHT_TRY(const bool projected, config.flag_or("summary_use_proj", true));
  SHARDLIGHT_TRY(const bool to_labels, config.flag_or("summary_proj_to_labels", true));
  if (projected) {
    table.linear("multiple_choice_head.summary", hidden, to_labels ? 1 : hidden, true);
  }
  return {};
}

Status add_head(TableBuilder& table, const HfValues& config, Head head, const std::string& base,
                const TransformerShape& shape) {
  switch (head) {
    case kBase:
      return {};
    case kLanguage:
      return add_language_head(table, config, base, shape);
    case kDouble:
      SHARDLIGHT_TRY_STATUS(add_language_head(table, config, base, shape));
      return add_choice_head(table, config, shape.hidden);
    case kQuestion:
      table.linear("qa_outputs", shape.hidden, 2, true);
      return {};
    case kSequence:
    case kToken:
      break;
  }
  SHARDLIGHT_TRY(const std::int64_t labels, config.labels());
  if (head == kSequence) {
    table.linear("score", shape.hidden, labels, false);
  } else {
    table.linear("classifier", shape.hidden, labels, true);
  }
  return {};
}

}  // namespace

Result<Model> gpt2_model(const HfValues& config, std::string name) {
  TransformerShape shape;
  SHARDLIGHT_TRY(const std::size_t head, config.architecture(kArchitectures, kLanguage));
  SHARDLIGHT_TRY(const layout::DType dtype, config.dtype());
  SHARDLIGHT_TRY(shape.hidden, config.size(kHidden));
  SHARDLIGHT_TRY(shape.layers, config.size(kLayers, kMostLayers));
  SHARDLIGHT_TRY(shape.heads, config.size(kHeads));
  SHARDLIGHT_TRY(shape.vocabulary, config.size("vocab_size"));
  SHARDLIGHT_TRY(shape.positions, config.size(kPositions));
  SHARDLIGHT_TRY(const std::int64_t inner,
                 config.size_or("n_inner", 4 * shape.hidden, 4 * shape.hidden));
  SHARDLIGHT_TRY_STATUS(check_heads_divide(kHidden, shape.hidden, kHeads, shape.heads));

  TableBuilder table(dtype);
  const std::string base = head == kBase ? "" : "transformer.";
  table.embedding(base + "wte", shape.vocabulary, shape.hidden);
  table.embedding(base + "wpe", shape.positions, shape.hidden);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    add_block(table, fmt::format("{}h.{}", base, layer), shape.hidden, inner);
  }
  table.layer_norm(base + "ln_f", shape.hidden);
  SHARDLIGHT_TRY_STATUS(add_head(table, config, static_cast<Head>(head), base, shape));
  return std::move(table).finish(std::move(name), shape);
}

}  // namespace shardlight::plan
