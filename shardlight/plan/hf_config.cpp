#include "shardlight/plan/hf_config.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "shardlight/base/nearest.h"
#include "shardlight/plan/hf_families.h"
#include "shardlight/plan/hf_values.h"

namespace shardlight::plan {
namespace {

struct FamilyRow {
  const char* model_type;
  Result<Model> (*build)(const HfValues&, std::string);
};
constexpr std::array kFamilies = {
    FamilyRow{"gpt2", gpt2_model},       FamilyRow{"llama", llama_model},
    FamilyRow{"mistral", mistral_model}, FamilyRow{"qwen2", qwen2_model},
    FamilyRow{"qwen3", qwen3_model},     FamilyRow{"mixtral", mixtral_model},
    FamilyRow{"bert", bert_model},
};

// What changes the set of parameters, here or in another version of transformers, in a way that no
// family models. A config may have these keys only as null, false or empty.
struct Refusal {
  const char* key;
  const char* what;
};
constexpr std::array kRefusals = {
    Refusal{"quantization_config", "quantized weights are"},
    Refusal{"compression_config", "compressed weights are"},
    Refusal{"add_cross_attention", "cross attention is"},
    Refusal{"is_encoder_decoder", "encoder-decoder models are"},
    Refusal{"tie_encoder_decoder", "encoder-decoder models are"},
    Refusal{"pruned_heads", "pruned attention heads are"},
    Refusal{"per_layer_config", "layers of different sizes are"},
    Refusal{"text_config", "models made of several configs are"},
    Refusal{"vision_config", "models made of several configs are"},
    Refusal{"audio_config", "models made of several configs are"},
    Refusal{"encoder", "models made of several configs are"},
    Refusal{"decoder", "models made of several configs are"},
    Refusal{"auto_map", "code from outside transformers is"},
};

Status check_modelled(const HfValues& config) {
  for (const Refusal& refusal : kRefusals) {
    if (!config.asks_for(refusal.key)) continue;
    return config.refuse(refusal.key, fmt::format("null, since {} not modelled", refusal.what));
  }
  // Relative positions were parameters of BERT before transformers 5.
  const char* const positions = "position_embedding_type";
  if (config.asks_for(positions)) {
    const std::string allowed = "\"absolute\"";
    SHARDLIGHT_TRY(const std::string type, config.text(positions, allowed));
    if (type != "absolute") return config.refuse(positions, allowed);
  }
  return {};
}

}  // namespace

Result<Model> model_from_hf_config(std::string_view json_text, std::string name) {
  SHARDLIGHT_TRY(const HfValues config, HfValues::parse(json_text));
  std::vector<std::string> types;
  for (const FamilyRow& family : kFamilies) types.emplace_back(family.model_type);
  SHARDLIGHT_TRY(const std::string type, config.text("model_type", one_of(types, {})));
  for (const FamilyRow& family : kFamilies) {
    if (type != family.model_type) continue;
    SHARDLIGHT_TRY_STATUS(check_modelled(config));
    return family.build(config, std::move(name));
  }
  return config.refuse("model_type", one_of(types, type));
}

}  // namespace shardlight::plan
