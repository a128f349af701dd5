#include "shardlight/plan/hf_config.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shardlight::plan {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The smallest sensible config of a family; hidden 8, 1 layer, 2 heads, MLP 16, vocabulary 10.
json tiny(const std::string& type) {
  if (type == "gpt2") {
    return {{"model_type", "gpt2"}, {"n_embd", 8},      {"n_layer", 1},
            {"n_head", 2},          {"n_positions", 4}, {"vocab_size", 10}};
  }
  json config = {{"model_type", type},       {"hidden_size", 8},         {"num_hidden_layers", 1},
                 {"num_attention_heads", 2}, {"num_key_value_heads", 2}, {"intermediate_size", 16},
                 {"vocab_size", 10}};
  if (type == "mixtral") config["num_local_experts"] = 3;
  if (type == "bert") config["max_position_embeddings"] = 4;
  return config;
}

const std::vector<std::string> kTypes = {"gpt2",  "llama",   "mistral", "qwen2",
                                         "qwen3", "mixtral", "bert"};

Result<Model> read(const json& config) { return model_from_hf_config(config.dump(), "m"); }

json with(json config, const std::string& key, const json& value) {
  config[key] = value;
  return config;
}
json without(json config, const std::string& key) {
  config.erase(key);
  return config;
}

Error error_of(const json& config) {
  const auto model = read(config);
  EXPECT_FALSE(model) << config;
  return model ? Error::bug("no error") : model.error();
}

#define EXPECT_REFUSED(config, field_is, value_is, allowed_has) \
  do {                                                          \
    const Error refused = error_of(config);                     \
    EXPECT_EQ(refused.category(), ErrorCategory::kUser);        \
    EXPECT_EQ(refused.field(), field_is);                       \
    EXPECT_EQ(refused.value(), value_is);                       \
    EXPECT_THAT(refused.allowed(), HasSubstr(allowed_has));     \
  } while (false)

// Counted by hand: (10 + 4) x 8 embeddings; a block 2 x 16 norms, 8 x 24 + 24, 8 x 8 + 8,
// 8 x 32 + 32, 32 x 8 + 8; the last norm 16.
TEST(HfConfig, CountsATinyGpt2) {
  const auto model = read(tiny("gpt2"));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->parameters.value(), 112 + 32 + 216 + 72 + 288 + 264 + 16);
  EXPECT_EQ(model->parameters, model->table->elements());
  EXPECT_EQ(model->name, "m");
}

TEST(HfConfig, FillsTheTransformerShape) {
  const auto model = read(with(tiny("mistral"), "max_position_embeddings", 77));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->shape->hidden, 8);
  EXPECT_EQ(model->shape->layers, 1);
  EXPECT_EQ(model->shape->heads, 2);
  EXPECT_EQ(model->shape->vocabulary, 10);
  EXPECT_EQ(model->shape->positions, 77);
}

TEST(HfConfig, TiedWeightsAreOneRowWithTwoNames) {
  const auto tied = read(with(tiny("llama"), "tie_word_embeddings", true));
  const auto untied = read(with(tiny("llama"), "tie_word_embeddings", false));
  ASSERT_TRUE(tied && untied);
  EXPECT_THAT((*tied->table)[0].names, ElementsAre("model.embed_tokens.weight", "lm_head.weight"));
  EXPECT_EQ(untied->parameters.value() - tied->parameters.value(), 10 * 8);
}

TEST(HfConfig, TheElementTypeIsDtypeThenTorchDtypeThenFloat32) {
  const auto dtype = [](json config) { return (*read(config)->table)[0].options.dtype; };
  const json old = with(tiny("llama"), "torch_dtype", "bfloat16");
  EXPECT_EQ(dtype(tiny("llama")), layout::DType::kFloat32);
  EXPECT_EQ(dtype(old), layout::DType::kBFloat16);
  EXPECT_EQ(dtype(with(old, "dtype", "float16")), layout::DType::kFloat16);
  EXPECT_EQ(dtype(with(old, "dtype", nullptr)), layout::DType::kBFloat16);
}

TEST(HfConfig, NamesEachMissingSize) {
  const auto missing = [](const std::string& type, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      EXPECT_REFUSED(without(tiny(type), key), key, "", "a whole number from 1 to ");
    }
  };
  missing("gpt2", {"n_embd", "n_layer", "n_head", "n_positions", "vocab_size"});
  missing("bert", {"max_position_embeddings"});
  missing("mixtral", {"num_local_experts"});
  for (const std::string& type : kTypes) {
    if (type == "gpt2") continue;
    missing(type, {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                   "vocab_size"});
  }
}

TEST(HfConfig, RefusesWhatIsNoSize) {
  const std::vector<std::pair<json, std::string>> values = {
      {0, "0"},
      {-1, "-1"},
      {8.0, "8.0"},
      {"8", "\"8\""},
      {true, "true"},
      {nullptr, "null"},
      {json::array({8}), "a list"},
      {json::object(), "an object"},
      {(std::int64_t{1} << 40) + 1, "1099511627777"},
      {18446744073709551615ULL, "18446744073709551615"},
  };
  for (const auto& [value, text] : values) {
    EXPECT_REFUSED(with(tiny("llama"), "vocab_size", value), "vocab_size", text,
                   "a whole number from 1 to 1099511627776");
  }
  EXPECT_REFUSED(with(tiny("bert"), "num_hidden_layers", 10'001), "num_hidden_layers", "10001",
                 "a whole number from 1 to 10000");
}

TEST(HfConfig, RefusesWhatIsNoFlag) {
  for (const json& value : {json(1), json("true"), json(nullptr)}) {
    EXPECT_REFUSED(with(tiny("qwen3"), "attention_bias", value), "attention_bias", value.dump(),
                   "true or false");
  }
}

TEST(HfConfig, RefusesSizesThatDoNotGoTogether) {
  EXPECT_REFUSED(with(tiny("gpt2"), "n_head", 3), "n_embd", "8", "a multiple of n_head (3)");
  EXPECT_REFUSED(with(tiny("bert"), "hidden_size", 9), "hidden_size", "9",
                 "a multiple of num_attention_heads (2)");
  EXPECT_REFUSED(with(tiny("mistral"), "hidden_size", 9), "hidden_size", "9",
                 "a multiple of num_attention_heads (2)");
  EXPECT_REFUSED(with(with(tiny("llama"), "hidden_size", 9), "head_dim", 4), "hidden_size", "9",
                 "a multiple of num_attention_heads (2)");
  EXPECT_TRUE(read(with(with(tiny("mistral"), "hidden_size", 9), "head_dim", 4)));
  EXPECT_REFUSED(with(tiny("qwen2"), "hidden_size", 6), "hidden_size", "6",
                 "an even multiple of num_attention_heads (2)");
  EXPECT_REFUSED(with(tiny("qwen3"), "head_dim", 5), "head_dim", "5", "an even number");
  EXPECT_REFUSED(with(tiny("llama"), "num_key_value_heads", 3), "num_key_value_heads", "3",
                 "a divisor of num_attention_heads (2)");
  // Mistral's own default is 8, which does not divide 2.
  EXPECT_REFUSED(without(tiny("mistral"), "num_key_value_heads"), "num_key_value_heads", "8",
                 "a divisor of num_attention_heads (2)");
}

TEST(HfConfig, RefusesTwoNamesOfAKeyThatDisagree) {
  EXPECT_TRUE(read(with(tiny("gpt2"), "hidden_size", 8)));
  EXPECT_TRUE(read(with(without(tiny("gpt2"), "n_embd"), "hidden_size", 8)));
  EXPECT_REFUSED(with(tiny("gpt2"), "hidden_size", 16), "hidden_size", "16", "8, as n_embd has");
  EXPECT_REFUSED(with(tiny("mixtral"), "num_experts", 4), "num_experts", "4",
                 "3, as num_local_experts has");
}

TEST(HfConfig, RefusesByNameWhatItDoesNotModel) {
  const std::vector<std::pair<std::string, json>> cases = {
      {"quantization_config", {{"quant_method", "gptq"}}},
      {"compression_config", {{"format", "dense"}}},
      {"add_cross_attention", true},
      {"is_encoder_decoder", true},
      {"tie_encoder_decoder", true},
      {"pruned_heads", {{"0", {1}}}},
      {"per_layer_config", {{"0", {{"intermediate_size", 4}}}}},
      {"text_config", {{"hidden_size", 4}}},
      {"vision_config", {{"hidden_size", 4}}},
      {"audio_config", {{"hidden_size", 4}}},
      {"encoder", {{"hidden_size", 4}}},
      {"decoder", {{"hidden_size", 4}}},
      {"auto_map", {{"AutoModel", "modeling.Mine"}}},
  };
  for (const std::string& type : kTypes) {
    for (const auto& [key, value] : cases) {
      const Error error = error_of(with(tiny(type), key, value));
      EXPECT_EQ(error.field(), key);
      EXPECT_THAT(error.allowed(), AllOf(HasSubstr("null, since "), HasSubstr("not modelled")));
      EXPECT_TRUE(read(with(tiny(type), key, nullptr)));
      EXPECT_TRUE(read(with(tiny(type), key, value.is_boolean() ? json(false) : json::object())));
    }
    EXPECT_REFUSED(with(tiny(type), "position_embedding_type", "relative_key"),
                   "position_embedding_type", "\"relative_key\"", "absolute");
    EXPECT_TRUE(read(with(tiny(type), "position_embedding_type", "absolute")));
  }
}

TEST(HfConfig, SuggestsModelTypesAndArchitectures) {
  EXPECT_REFUSED(with(tiny("llama"), "model_type", "lama"), "model_type", "\"lama\"",
                 "did you mean llama? one of: ");
  EXPECT_REFUSED(without(tiny("llama"), "model_type"), "model_type", "", "gpt2, llama, mistral");
  EXPECT_REFUSED(with(tiny("llama"), "model_type", 3), "model_type", "3", "gpt2, llama, mistral");
  EXPECT_REFUSED(with(tiny("llama"), "architectures", {"LlamaForCausualLM"}), "architectures[0]",
                 "\"LlamaForCausualLM\"", "did you mean LlamaForCausalLM?");
  EXPECT_REFUSED(with(tiny("llama"), "architectures", {"GPT2Model"}), "architectures[0]",
                 "\"GPT2Model\"", "LlamaModel");
  EXPECT_REFUSED(with(tiny("llama"), "architectures", "LlamaModel"), "architectures",
                 "\"LlamaModel\"", "a list of strings");
  EXPECT_REFUSED(with(tiny("llama"), "architectures", {7}), "architectures[0]", "7", "LlamaModel");
}

TEST(HfConfig, RefusesElementTypesThatHoldNoWeights) {
  for (const json& type : {json("int8"), json("auto"), json("torch.float16"), json(16)}) {
    EXPECT_REFUSED(with(tiny("llama"), "dtype", type), "dtype", type.dump(), "float32, bfloat16");
  }
}

TEST(HfConfig, CountsLabels) {
  json config = with(tiny("bert"), "architectures", {"BertForSequenceClassification"});
  const auto outputs = [](const json& of) { return read(of)->table->parameters().back().shape[0]; };
  EXPECT_EQ(outputs(config), 2);
  EXPECT_EQ(outputs(with(config, "num_labels", 5)), 5);
  config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  EXPECT_EQ(outputs(config), 3);
  EXPECT_EQ(outputs(with(config, "num_labels", 3)), 3);
  EXPECT_REFUSED(with(config, "num_labels", 4), "num_labels", "4", "3, the number of entries");
  EXPECT_REFUSED(with(config, "id2label", json::object()), "id2label", "an object", "each label");
  EXPECT_REFUSED(with(config, "id2label", {{"01", "a"}}), "id2label", "\"01\"", "each label");
}

TEST(HfConfig, RefusesOverflowByTheParameter) {
  json config = tiny("llama");
  for (const char* key : {"hidden_size", "vocab_size"}) config[key] = std::int64_t{1} << 40;
  EXPECT_REFUSED(config, "model.embed_tokens.weight.shape", "[1099511627776, 1099511627776]",
                 "bytes in all parameters");
  config = with(tiny("qwen3"), "head_dim", std::int64_t{1} << 40);
  EXPECT_REFUSED(config, "head_dim", "1099511627776", "an even number up to 549755813888");
}

TEST(HfConfig, RefusesTextThatIsNoObject) {
  const auto refused = [](const std::string& text, const std::string& field,
                          const std::string& value) {
    const auto model = model_from_hf_config(text, "m");
    ASSERT_FALSE(model) << text;
    EXPECT_EQ(model.error().field(), field);
    EXPECT_EQ(model.error().value(), value);
  };
  refused("", "config", "not JSON at byte 1");
  refused("[]", "config", "a list");
  refused("null", "config", "null");
  refused("{\"a\": 1e999}", "config", "not JSON at byte 11");
  refused("{\"a\": \xff}", "config", "not JSON at byte 7");
  refused(R"({"vocab_size": 3, "vocab_size": 3})", "vocab_size", "a second one");
  refused(R"({"a": [{"b": {"c": 1, "c": 2}}]})", "a.b.c", "a second one");
  const std::string nul("{}\0x", 4);
  refused(nul, "config", "not JSON at byte 3");
}

TEST(HfConfig, DeepNestingIsAnErrorAndNotACrash) {
  for (const std::string& brackets : {std::string("["), std::string("{\"a\":")}) {
    std::string text = "{\"a\":";
    for (int i = 0; i < 200'000; ++i) text += brackets;
    const auto model = model_from_hf_config(text, "m");
    ASSERT_FALSE(model);
    EXPECT_THAT(model.error().allowed(), HasSubstr("at most 128 deep"));
  }
}

TEST(HfConfig, LongValuesAreCutInErrors) {
  const std::string unlike(1'000'000, 'x');
  const Error error = error_of(with(tiny("llama"), "model_type", unlike));
  EXPECT_LT(error.message().size(), 300);
}

// Any bytes; any JSON; a good config with bytes changed, and cut short.
RC_GTEST_PROP(HfConfig, NeverCrashesOnBytes, (const std::string& text)) {
  RC_ASSERT(!model_from_hf_config(text, "m"));
}

rc::Gen<json> any_json() {
  return rc::gen::element<json>(nullptr, true, 0, -1, 7, 2.5, 1e300, 18446744073709551615ULL, "",
                                "x", json::array(), json::object(), json::array({1, "a"}),
                                json({{"0", 1}}), std::int64_t{1} << 39);
}

RC_GTEST_PROP(HfConfig, NeverCrashesOnValues, ()) {
  json config = tiny(*rc::gen::elementOf(kTypes));
  const std::vector<std::string> more = {"architectures", "dtype",       "head_dim",  "id2label",
                                         "num_labels",    "n_inner",     "mlp_bias",  "auto_map",
                                         "torch_dtype",   "num_experts", "model_type"};
  std::vector<std::string> keys = more;
  for (const auto& [key, value] : config.items()) keys.push_back(key);
  const int changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i) config[*rc::gen::elementOf(keys)] = *any_json();
  const auto model = read(config);
  if (model) {
    RC_ASSERT(model->parameters.value() > 0);
  } else {
    RC_ASSERT(model.error().category() == ErrorCategory::kUser);
    RC_ASSERT(!model.error().field().empty());
    RC_ASSERT(!model.error().allowed().empty());
  }
}

RC_GTEST_PROP(HfConfig, NeverCrashesOnMutatedText, ()) {
  std::string text = tiny(*rc::gen::elementOf(kTypes)).dump();
  const int changes = *rc::gen::inRange(0, 5);
  for (int i = 0; i < changes; ++i) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
  }
  text.resize(*rc::gen::inRange<std::size_t>(0, text.size() + 1));
  const auto model = model_from_hf_config(text, "m");
  if (!model) RC_ASSERT(!model.error().message().empty());
}

}  // namespace
}  // namespace shardlight::plan
