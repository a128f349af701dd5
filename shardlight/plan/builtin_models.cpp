#include "shardlight/plan/builtin_models.h"

#include <array>

#include "shardlight/base/nearest.h"
#include "shardlight/plan/hf_config.h"

namespace shardlight::plan {
namespace {

constexpr std::string_view kGpt2 =
    "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, Table 2; "
    "openai-community/gpt2*";
constexpr std::string_view kLlama = "Touvron et al. 2023, arXiv:2302.13971, Table 2; huggyllama/*";
constexpr std::string_view kLlama2 = "Touvron et al. 2023, arXiv:2307.09288; meta-llama/Llama-2-*";
constexpr std::string_view kLlama3 =
    "Llama team 2024, arXiv:2407.21783, Table 3; meta-llama/Meta-Llama-3-*";
constexpr std::string_view kBert =
    "Devlin et al. 2019, arXiv:1810.04805, section 3; google-bert/bert-*-uncased";
constexpr std::string_view kZero = "Rajbhandari et al. 2020, arXiv:1910.02054, Table 1";

constexpr auto kModels = std::to_array<BuiltinModel>({
    {.name = "gpt2",
     .description = "GPT-2 small",
     .source = kGpt2,
     .hf_config = R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12,
        "n_head": 12, "n_positions": 1024, "vocab_size": 50257})"},
    {.name = "gpt2-medium",
     .description = "GPT-2 medium",
     .source = kGpt2,
     .hf_config = R"({"model_type": "gpt2", "n_embd": 1024, "n_layer": 24,
        "n_head": 16, "n_positions": 1024, "vocab_size": 50257})"},
    {.name = "gpt2-large",
     .description = "GPT-2 large",
     .source = kGpt2,
     .hf_config = R"({"model_type": "gpt2", "n_embd": 1280, "n_layer": 36,
        "n_head": 20, "n_positions": 1024, "vocab_size": 50257})"},
    {.name = "gpt2-xl",
     .description = "GPT-2 XL, the 1.5B model",
     .source = kGpt2,
     .hf_config = R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48,
        "n_head": 25, "n_positions": 1024, "vocab_size": 50257})"},
    {.name = "llama-7b",
     .description = "LLaMA 7B",
     .source = kLlama,
     .hf_config = R"({"model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 32000, "max_position_embeddings": 2048, "torch_dtype": "float16"})"},
    {.name = "llama-13b",
     .description = "LLaMA 13B",
     .source = kLlama,
     .hf_config = R"({"model_type": "llama", "hidden_size": 5120,
        "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40,
        "vocab_size": 32000, "max_position_embeddings": 2048, "torch_dtype": "float16"})"},
    {.name = "llama-65b",
     .description = "LLaMA 65B",
     .source = kLlama,
     .hf_config = R"({"model_type": "llama", "hidden_size": 8192,
        "intermediate_size": 22016, "num_hidden_layers": 80, "num_attention_heads": 64,
        "vocab_size": 32000, "max_position_embeddings": 2048, "torch_dtype": "float16"})"},
    {.name = "llama-2-7b",
     .description = "Llama 2 7B",
     .source = kLlama2,
     .hf_config = R"({"model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 32000, "max_position_embeddings": 4096, "torch_dtype": "float16"})"},
    {.name = "llama-2-70b",
     .description = "Llama 2 70B",
     .source = kLlama2,
     .hf_config = R"({"model_type": "llama", "hidden_size": 8192,
        "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
        "vocab_size": 32000, "max_position_embeddings": 4096, "torch_dtype": "float16",
        "num_key_value_heads": 8})"},
    {.name = "llama-3-8b",
     .description = "Llama 3 8B",
     .source = kLlama3,
     .hf_config = R"({"model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
        "num_key_value_heads": 8})"},
    {.name = "llama-3-70b",
     .description = "Llama 3 70B",
     .source = kLlama3,
     .hf_config = R"({"model_type": "llama", "hidden_size": 8192,
        "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
        "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
        "num_key_value_heads": 8})"},
    {.name = "mistral-7b",
     .description = "Mistral 7B v0.1",
     .source = "Jiang et al. 2023, arXiv:2310.06825, Table 1; mistralai/Mistral-7B-v0.1",
     .hf_config = R"({"model_type": "mistral", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 32000, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
        "num_key_value_heads": 8})"},
    {.name = "mixtral-8x7b",
     .description = "Mixtral 8x7B v0.1, all experts counted",
     .source = "Jiang et al. 2024, arXiv:2401.04088, Table 1; mistralai/Mixtral-8x7B-v0.1",
     .hf_config = R"({"model_type": "mixtral", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 32000, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
        "num_key_value_heads": 8, "num_local_experts": 8})"},
    {.name = "qwen2-7b",
     .description = "Qwen2 7B",
     .source = "Yang et al. 2024, arXiv:2407.10671, Table 1; Qwen/Qwen2-7B",
     .hf_config = R"({"model_type": "qwen2", "hidden_size": 3584,
        "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
        "vocab_size": 152064, "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16", "num_key_value_heads": 4, "tie_word_embeddings": false})"},
    {.name = "qwen3-8b",
     .description = "Qwen3 8B",
     .source = "Yang et al. 2025, arXiv:2505.09388, Table 1; Qwen/Qwen3-8B",
     .hf_config = R"({"model_type": "qwen3", "hidden_size": 4096,
        "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
        "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
        "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": false})"},
    {.name = "bert-base",
     .description = "BERT base, uncased, with its masked-language head",
     .source = kBert,
     .hf_config = R"({"model_type": "bert", "hidden_size": 768,
        "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2})"},
    {.name = "bert-large",
     .description = "BERT large, uncased, with its masked-language head",
     .source = kBert,
     .hf_config = R"({"model_type": "bert", "hidden_size": 1024,
        "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2})"},
    {.name = "gpt2-1.5b-zero",
     .description = "The ZeRO paper's GPT-2, as a count",
     .source = "Rajbhandari et al. 2020, arXiv:1910.02054, section 3.2 and the appendix's Table 5",
     .parameters = 1'500'000'000,
     .shape =
         TransformerShape{
             .hidden = 1600, .layers = 48, .heads = 16, .vocabulary = 50257, .positions = 1024}},
    {.name = "zero-7.5b",
     .description = "The ZeRO paper's example of 7.5 billion parameters",
     .source = "Rajbhandari et al. 2020, arXiv:1910.02054, Figure 1 and Table 1",
     .parameters = 7'500'000'000},
    {.name = "zero-128b",
     .description = "The ZeRO paper's example of 128 billion parameters",
     .source = kZero,
     .parameters = 128'000'000'000},
    {.name = "zero-1t",
     .description = "The ZeRO paper's example of a trillion parameters",
     .source = kZero,
     .parameters = 1'000'000'000'000},
});

}  // namespace

const std::vector<BuiltinModel>& builtin_models() {
  static const std::vector<BuiltinModel> kTable(kModels.begin(), kModels.end());
  return kTable;
}

Result<Model> builtin_model(const std::string& name) {
  std::vector<std::string> names;
  for (const BuiltinModel& builtin : builtin_models()) {
    if (builtin.name != name) {
      names.emplace_back(builtin.name);
      continue;
    }
    if (!builtin.hf_config.empty()) return model_from_hf_config(builtin.hf_config, name);
    Model model;
    model.name = name;
    model.parameters = Count(builtin.parameters);
    model.shape = builtin.shape;
    return model;
  }
  return user_error("model", name, one_of(names, name));
}

}  // namespace shardlight::plan
