// Models that have a name here, so that a plan needs no file: public checkpoints by the config they
// were published with, and the sizes that the ZeRO paper plans for by their number of parameters.
//
// The table is constant; both functions may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/plan/model.h"

namespace shardlight::plan {

struct BuiltinModel {
  std::string_view name;
  std::string_view description;  // one line
  std::string_view source;       // where the sizes are published
  // A config.json with the keys that give the size, read by model_from_hf_config; empty where only
  // a number is published.
  std::string_view hf_config = {};
  std::int64_t parameters = 0;                 // that number; 0 where there is a config
  std::optional<TransformerShape> shape = {};  // what is published besides the number
};

// By family, small to large.
const std::vector<BuiltinModel>& builtin_models();

// The model of that name. Error (user, field "model"): there is none; `allowed` lists the names and
// suggests the nearest.
Result<Model> builtin_model(const std::string& name);

}  // namespace shardlight::plan
