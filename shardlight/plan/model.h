// What a plan knows of a model: how many parameters it has and, when it came from a config or a
// file, which ones and how the transformer around them is shaped. A value, without torch.
// Made by hf_config.h, safetensors_header.h or builtin_models.h; share it read-only.
#pragma once

#include <optional>
#include <string>

#include "shardlight/base/quantity.h"
#include "shardlight/layout/parameter_table.h"

namespace shardlight::plan {

// Dimensions of a transformer, as activation formulas need them.
struct TransformerShape {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  // longest sequence the config allows; 0 where it sets no limit
  // Mixture of experts: how many a layer has, and how many of them a token uses; 0 where dense.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
};

struct Model {
  std::string name;
  Count parameters;  // of the whole model; equals table->elements() where there is a table
  std::optional<layout::ParameterTable> table;
  std::optional<TransformerShape> shape;
};

}  // namespace shardlight::plan
