// The model families of hf_config.h: from a config's values to the parameters that the class of
// this family in transformers 5.24 registers, in its order. Internal to plan; pure functions.
//
// Each reads its own keys only. What no family models is refused before, in hf_config.cpp.
#pragma once

#include <string>

#include "shardlight/base/result.h"
#include "shardlight/plan/hf_values.h"
#include "shardlight/plan/model.h"

namespace shardlight::plan {

Result<Model> gpt2_model(const HfValues& config, std::string name);
Result<Model> bert_model(const HfValues& config, std::string name);

// One decoder with rotary positions and gated MLPs; hf_decoder.cpp has the table of differences.
Result<Model> llama_model(const HfValues& config, std::string name);
Result<Model> mistral_model(const HfValues& config, std::string name);
Result<Model> qwen2_model(const HfValues& config, std::string name);
Result<Model> qwen3_model(const HfValues& config, std::string name);
Result<Model> mixtral_model(const HfValues& config, std::string name);

}  // namespace shardlight::plan
