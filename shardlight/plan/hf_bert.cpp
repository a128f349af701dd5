#include <fmt/format.h>

#include <array>
#include <utility>

#include "shardlight/plan/hf_families.h"
#include "shardlight/plan/hf_table.h"

namespace shardlight::plan {
namespace {

struct Head {
  const char* architecture;
  bool pooler;      // whether the class keeps BertModel's pooler
  bool language;    // cls.predictions
  const char* out;  // a linear layer over the hidden states, or nothing
  int outputs;      // of it; 0: as many as there are labels
};
constexpr std::array kHeads = {
    Head{"BertForMaskedLM", false, true, nullptr, 0},
    Head{"BertModel", true, false, nullptr, 0},
    Head{"BertForPreTraining", true, true, "cls.seq_relationship", 2},
    Head{"BertLMHeadModel", false, true, nullptr, 0},
    Head{"BertForNextSentencePrediction", true, false, "cls.seq_relationship", 2},
    Head{"BertForSequenceClassification", true, false, "classifier", 0},
    Head{"BertForMultipleChoice", true, false, "classifier", 1},
    Head{"BertForTokenClassification", false, false, "classifier", 0},
    Head{"BertForQuestionAnswering", false, false, "qa_outputs", 0},
};
constexpr std::size_t kBase = 1;

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const Head& head : kHeads) names.emplace_back(head.architecture);
  return names;
}

void add_layer(TableBuilder& table, const std::string& layer, std::int64_t hidden,
               std::int64_t intermediate) {
  for (const char* projection : {"query", "key", "value"}) {
    table.linear(layer + ".attention.self." + projection, hidden, hidden, true);
  }
  table.linear(layer + ".attention.output.dense", hidden, hidden, true);
  table.layer_norm(layer + ".attention.output.LayerNorm", hidden);
  table.linear(layer + ".intermediate.dense", hidden, intermediate, true);
  table.linear(layer + ".output.dense", intermediate, hidden, true);
  table.layer_norm(layer + ".output.LayerNorm", hidden);
}

// BertLMPredictionHead. Tied, it shares the embedding and its decoder's bias is its own bias.
void add_predictions(TableBuilder& table, const TransformerShape& shape, bool tied) {
  const std::string head = "cls.predictions";
  table.parameter(head + ".bias", {shape.vocabulary});
  table.linear(head + ".transform.dense", shape.hidden, shape.hidden, true);
  table.layer_norm(head + ".transform.LayerNorm", shape.hidden);
  if (tied) {
    table.tied("bert.embeddings.word_embeddings.weight", head + ".decoder.weight");
    table.tied(head + ".bias", head + ".decoder.bias");
  } else {
    table.linear(head + ".decoder", shape.hidden, shape.vocabulary, true);
  }
}

Status add_head(TableBuilder& table, const HfValues& config, const Head& head,
                const TransformerShape& shape) {
  if (head.language) {
    SHARDLIGHT_TRY(const bool tied, config.flag_or("tie_word_embeddings", true));
    add_predictions(table, shape, tied);
  }
  if (head.out == nullptr) return {};
  std::int64_t outputs = head.outputs;
  if (outputs == 0) {
    SHARDLIGHT_TRY(outputs, config.labels());
  }
  table.linear(head.out, shape.hidden, outputs, true);
  return {};
}

}  // namespace

Result<Model> bert_model(const HfValues& config, std::string name) {
  TransformerShape shape;
  SHARDLIGHT_TRY(const std::size_t chosen, config.architecture(architectures(), 0));
  SHARDLIGHT_TRY(const layout::DType dtype, config.dtype());
  SHARDLIGHT_TRY(shape.hidden, config.size("hidden_size"));
  SHARDLIGHT_TRY(shape.layers, config.size("num_hidden_layers", kMostLayers));
  SHARDLIGHT_TRY(shape.heads, config.size("num_attention_heads"));
  SHARDLIGHT_TRY(const std::int64_t intermediate, config.size("intermediate_size"));
  SHARDLIGHT_TRY(shape.vocabulary, config.size("vocab_size"));
  SHARDLIGHT_TRY(shape.positions, config.size("max_position_embeddings"));
  SHARDLIGHT_TRY(const std::int64_t token_types, config.size_or("type_vocab_size", 2));
  SHARDLIGHT_TRY_STATUS(
      check_heads_divide("hidden_size", shape.hidden, "num_attention_heads", shape.heads));

  const Head& head = kHeads[chosen];
  TableBuilder table(dtype);
  const std::string base = chosen == kBase ? "" : "bert.";
  table.embedding(base + "embeddings.word_embeddings", shape.vocabulary, shape.hidden);
  table.embedding(base + "embeddings.position_embeddings", shape.positions, shape.hidden);
  table.embedding(base + "embeddings.token_type_embeddings", token_types, shape.hidden);
  table.layer_norm(base + "embeddings.LayerNorm", shape.hidden);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    add_layer(table, fmt::format("{}encoder.layer.{}", base, layer), shape.hidden, intermediate);
  }
  if (head.pooler) table.linear(base + "pooler.dense", shape.hidden, shape.hidden, true);
  SHARDLIGHT_TRY_STATUS(add_head(table, config, head, shape));
  return std::move(table).finish(std::move(name), shape);
}

}  // namespace shardlight::plan
