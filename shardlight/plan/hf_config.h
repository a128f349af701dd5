// A model from its Hugging Face config.json: every parameter that transformers 5.24 would register,
// with its names, shape and order, without building the model. Not a loader: weights, buffers,
// tokenizers and generation settings are not looked at.
//
// Pure functions of their arguments, safe on any bytes and from any thread.
#pragma once

#include <string>
#include <string_view>

#include "shardlight/base/result.h"
#include "shardlight/plan/model.h"

namespace shardlight::plan {

// The table is that of named_parameters() of AutoModelFor….from_config(config); tied weights are
// one row whose further names are the aliases. `model_type` is gpt2, llama, mistral, qwen2, qwen3,
// mixtral or bert; `architectures[0]` picks the class, and without it the one with the language
// model's head is meant (BertForMaskedLM for bert). The element type is `dtype`, or `torch_dtype`,
// or float32. `name` becomes Model::name.
//
// A key that transformers has a default for may be left out, but for those without which a model
// has no size: hidden size, layers, heads, vocabulary, MLP width (not GPT-2's n_inner), experts,
// learned positions.
//
// Errors (user; the field is the key): text that is not a JSON object, a missing key (its value is
// empty), a value of another type or out of range, sizes that do not go together, an unknown model
// type or architecture, and whatever changes the parameters in a way that is not modelled:
// quantization, cross attention, pruned heads, layers of different sizes, nested configs, code from
// outside transformers. Such a key is never ignored.
//
// Source: configuration_*.py and modeling_*.py of transformers 5.24, which the tests compare to.
Result<Model> model_from_hf_config(std::string_view json_text, std::string name);

}  // namespace shardlight::plan
