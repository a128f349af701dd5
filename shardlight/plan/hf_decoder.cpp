#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "shardlight/plan/allowed.h"
#include "shardlight/plan/hf_families.h"
#include "shardlight/plan/hf_table.h"

namespace shardlight::plan {
namespace {

enum class Bias { kNever, kAlways, kByKey };  // kByKey: as attention_bias says

// How the families differ, as configuration_*.py and modeling_*.py of transformers 5.24 say.
struct Family {
  const char* prefix = "";              // of the class names
  std::int64_t key_value_heads = 0;     // where the key is absent; 0: as many as heads
  bool key_value_heads_or_null = true;  // whether null may say "as many as heads"
  std::int64_t head_dim = 0;            // where the key is absent; 0: hidden_size / heads
  bool head_dim_or_null = true;         // whether null may say "hidden_size / heads"
  bool heads_divide_hidden = false;     // hidden_size / heads is whole even where head_dim is given
  std::int64_t positions = 0;           // where max_position_embeddings is absent
  Bias query_key_value_bias = Bias::kNever;
  Bias output_bias = Bias::kNever;
  bool mlp_bias_key = false;
  bool query_key_norm = false;           // RMSNorm over each head's query and key
  bool experts = false;                  // a router and num_local_experts MLPs in place of one
  const char* question_base = "model.";  // what the question-answering head calls its model
};

constexpr Family kLlama = {.prefix = "Llama",
                           .heads_divide_hidden = true,
                           .positions = 2048,
                           .query_key_value_bias = Bias::kByKey,
                           .output_bias = Bias::kByKey,
                           .mlp_bias_key = true,
                           .question_base = "transformer."};
constexpr Family kMistral = {.prefix = "Mistral",
                             .key_value_heads = 8,
                             .key_value_heads_or_null = false,
                             .positions = 131072};
constexpr Family kQwen2 = {.prefix = "Qwen2",
                           .key_value_heads = 32,
                           .head_dim_or_null = false,
                           .positions = 32768,
                           .query_key_value_bias = Bias::kAlways,
                           .question_base = "transformer."};
constexpr Family kQwen3 = {.prefix = "Qwen3",
                           .key_value_heads = 32,
                           .head_dim = 128,
                           .head_dim_or_null = false,
                           .positions = 32768,
                           .query_key_value_bias = Bias::kByKey,
                           .output_bias = Bias::kByKey,
                           .query_key_norm = true,
                           .question_base = "transformer."};
constexpr Family kMixtral = {.prefix = "Mixtral",
                             .key_value_heads = 8,
                             .key_value_heads_or_null = false,
                             .positions = 131072,
                             .experts = true};

enum Head : std::size_t { kCausal, kBase, kSequence, kToken, kQuestion };
constexpr std::array kHeadNames = {"ForCausalLM", "Model", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"};

// Where num_experts_per_tok is absent.
constexpr std::int64_t kMixtralExpertsPerToken = 2;

constexpr const char* kHeadsKey = "num_attention_heads";

struct Dimensions {
  TransformerShape shape;
  std::int64_t intermediate = 0;
  std::int64_t head_dim = 0;
  std::int64_t query_width = 0;      // heads x head_dim
  std::int64_t key_value_width = 0;  // key-value heads x head_dim
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
};

// What a null says, where it may say "derive it".
std::optional<std::int64_t> zero_if(bool allowed) {
  return allowed ? std::optional<std::int64_t>(0) : std::nullopt;
}

Result<std::int64_t> read_key_value_heads(const Family& family, const HfValues& config,
                                          std::int64_t heads) {
  SHARDLIGHT_TRY(const std::int64_t found,
                 config.size_or("num_key_value_heads", family.key_value_heads,
                                zero_if(family.key_value_heads_or_null)));
  const std::int64_t key_value_heads = found == 0 ? heads : found;
  if (heads % key_value_heads == 0) return key_value_heads;
  return user_error("num_key_value_heads", std::to_string(key_value_heads),
                    fmt::format("a divisor of {} ({})", kHeadsKey, heads));
}

// Rotary positions turn pairs of elements, so it is even.
Result<std::int64_t> read_head_dim(const Family& family, const HfValues& config,
                                   const TransformerShape& shape) {
  SHARDLIGHT_TRY(const std::int64_t found,
                 config.size_or("head_dim", family.head_dim, zero_if(family.head_dim_or_null)));
  if (found == 0 || family.heads_divide_hidden) {
    SHARDLIGHT_TRY_STATUS(check_heads_divide("hidden_size", shape.hidden, kHeadsKey, shape.heads));
  }
  const std::int64_t head_dim = found == 0 ? shape.hidden / shape.heads : found;
  if (head_dim % 2 == 0 && head_dim <= kLargestSize / shape.heads) return head_dim;
  if (found == 0) {
    return user_error("hidden_size", std::to_string(shape.hidden),
                      fmt::format("an even multiple of {} ({})", kHeadsKey, shape.heads));
  }
  return user_error("head_dim", std::to_string(found),
                    fmt::format("an even number up to {}", kLargestSize / shape.heads));
}

Status read_biases(const Family& family, const HfValues& config, Dimensions& to) {
  const auto read = [&config](Bias bias) -> Result<bool> {
    if (bias == Bias::kByKey) return config.flag_or("attention_bias", false);
    return bias == Bias::kAlways;
  };
  SHARDLIGHT_TRY(to.query_key_value_bias, read(family.query_key_value_bias));
  SHARDLIGHT_TRY(to.output_bias, read(family.output_bias));
  if (family.mlp_bias_key) {
    SHARDLIGHT_TRY(to.mlp_bias, config.flag_or("mlp_bias", false));
  }
  return {};
}

Result<Dimensions> read(const Family& family, const HfValues& config) {
  Dimensions to;
  SHARDLIGHT_TRY(to.shape.hidden, config.size("hidden_size"));
  SHARDLIGHT_TRY(to.shape.layers, config.size("num_hidden_layers", kMostLayers));
  SHARDLIGHT_TRY(to.shape.heads, config.size(kHeadsKey));
  SHARDLIGHT_TRY(to.intermediate, config.size("intermediate_size"));
  SHARDLIGHT_TRY(to.shape.vocabulary, config.size("vocab_size"));
  SHARDLIGHT_TRY(to.shape.positions, config.size_or("max_position_embeddings", family.positions));
  if (family.experts) {
    SHARDLIGHT_TRY(to.shape.experts, config.size({"num_local_experts", "num_experts"}));
    SHARDLIGHT_TRY(
        to.shape.experts_per_token,
        config.size_or("num_experts_per_tok", std::min(to.shape.experts, kMixtralExpertsPerToken)));
    if (to.shape.experts_per_token > to.shape.experts) {
      return user_error("num_experts_per_tok", std::to_string(to.shape.experts_per_token),
                        allowed_whole_number(1, to.shape.experts));
    }
  }
  SHARDLIGHT_TRY(const std::int64_t key_value_heads,
                 read_key_value_heads(family, config, to.shape.heads));
  SHARDLIGHT_TRY(to.head_dim, read_head_dim(family, config, to.shape));
  to.query_width = to.shape.heads * to.head_dim;
  to.key_value_width = key_value_heads * to.head_dim;
  SHARDLIGHT_TRY_STATUS(read_biases(family, config, to));
  return to;
}

void add_mlp(TableBuilder& table, const std::string& mlp, const Dimensions& size) {
  const std::int64_t hidden = size.shape.hidden;
  if (size.shape.experts > 0) {
    table.parameter(mlp + ".gate.weight", {size.shape.experts, hidden});
    table.parameter(mlp + ".experts.gate_up_proj",
                    {size.shape.experts, 2 * size.intermediate, hidden});
    table.parameter(mlp + ".experts.down_proj", {size.shape.experts, hidden, size.intermediate});
    return;
  }
  table.linear(mlp + ".gate_proj", hidden, size.intermediate, size.mlp_bias);
  table.linear(mlp + ".up_proj", hidden, size.intermediate, size.mlp_bias);
  table.linear(mlp + ".down_proj", size.intermediate, hidden, size.mlp_bias);
}

void add_layer(TableBuilder& table, const Family& family, const std::string& layer,
               const Dimensions& size) {
  const std::int64_t hidden = size.shape.hidden;
  const std::string attention = layer + ".self_attn";
  table.linear(attention + ".q_proj", hidden, size.query_width, size.query_key_value_bias);
  table.linear(attention + ".k_proj", hidden, size.key_value_width, size.query_key_value_bias);
  table.linear(attention + ".v_proj", hidden, size.key_value_width, size.query_key_value_bias);
  table.linear(attention + ".o_proj", size.query_width, hidden, size.output_bias);
  if (family.query_key_norm) {
    table.rms_norm(attention + ".q_norm", size.head_dim);
    table.rms_norm(attention + ".k_norm", size.head_dim);
  }
  add_mlp(table, layer + ".mlp", size);
  table.rms_norm(layer + ".input_layernorm", hidden);
  table.rms_norm(layer + ".post_attention_layernorm", hidden);
}

Status add_head(TableBuilder& table, const HfValues& config, Head head, const std::string& base,
                const TransformerShape& shape) {
  if (head == kCausal) {
    SHARDLIGHT_TRY(const bool tied, config.flag_or("tie_word_embeddings", false));
    if (tied) {
      table.tied(base + "embed_tokens.weight", "lm_head.weight");
    } else {
      table.linear("lm_head", shape.hidden, shape.vocabulary, false);
    }
  } else if (head == kQuestion) {
    table.linear("qa_outputs", shape.hidden, 2, true);
  } else if (head != kBase) {
    bool bias = false;
    if (head == kToken) {
      SHARDLIGHT_TRY(bias, config.flag_or("token_classification_bias", true));
    }
    SHARDLIGHT_TRY(const std::int64_t labels, config.labels());
    table.linear("score", shape.hidden, labels, bias);
  }
  return {};
}

Result<Model> build(const Family& family, const HfValues& config, std::string name) {
  std::vector<std::string> architectures;
  for (const char* head : kHeadNames) architectures.push_back(std::string(family.prefix) + head);
  SHARDLIGHT_TRY(const std::size_t chosen, config.architecture(architectures, kCausal));
  SHARDLIGHT_TRY(const layout::DType dtype, config.dtype());
  SHARDLIGHT_TRY(const Dimensions size, read(family, config));

  const auto head = static_cast<Head>(chosen);
  const std::string base = head == kBase ? "" : head == kQuestion ? family.question_base : "model.";
  TableBuilder table(dtype);
  table.embedding(base + "embed_tokens", size.shape.vocabulary, size.shape.hidden);
  for (std::int64_t layer = 0; layer < size.shape.layers; ++layer) {
    add_layer(table, family, fmt::format("{}layers.{}", base, layer), size);
  }
  table.rms_norm(base + "norm", size.shape.hidden);
  SHARDLIGHT_TRY_STATUS(add_head(table, config, head, base, size.shape));
  return std::move(table).finish(std::move(name), size.shape);
}

}  // namespace

Result<Model> llama_model(const HfValues& config, std::string name) {
  return build(kLlama, config, std::move(name));
}
Result<Model> mistral_model(const HfValues& config, std::string name) {
  return build(kMistral, config, std::move(name));
}
Result<Model> qwen2_model(const HfValues& config, std::string name) {
  return build(kQwen2, config, std::move(name));
}
Result<Model> qwen3_model(const HfValues& config, std::string name) {
  return build(kQwen3, config, std::move(name));
}
Result<Model> mixtral_model(const HfValues& config, std::string name) {
  return build(kMixtral, config, std::move(name));
}

}  // namespace shardlight::plan
