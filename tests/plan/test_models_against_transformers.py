"""The parameter tables that shardlight::plan reads from configs, against those of transformers.

Each config is built twice: by transformers on the meta device, and by our parser through the
program dump_model. Names, shapes, order, element types and ties must be the same, not only the
count. What transformers cannot build, we must refuse too.
"""

import json
import random
import subprocess
from pathlib import Path

import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "vocab_size": 50,
}
# The least that we take of each family.
LEAST = {
    "gpt2": {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16, "vocab_size": 50},
    "llama": SIZES,
    "mistral": SIZES | {"num_key_value_heads": 2},
    "qwen2": SIZES | {"num_key_value_heads": 2},
    "qwen3": SIZES | {"num_key_value_heads": 2},
    "mixtral": SIZES | {"num_key_value_heads": 2, "num_local_experts": 3},
    "bert": SIZES | {"max_position_embeddings": 16},
}
DECODER_HEADS = [
    "ForCausalLM",
    "Model",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
]
HEADS = {
    "gpt2": [
        "GPT2LMHeadModel",
        "GPT2Model",
        "GPT2DoubleHeadsModel",
        "GPT2ForSequenceClassification",
        "GPT2ForTokenClassification",
        "GPT2ForQuestionAnswering",
    ],
    "bert": [
        "BertForMaskedLM",
        "BertModel",
        "BertForPreTraining",
        "BertLMHeadModel",
        "BertForNextSentencePrediction",
        "BertForSequenceClassification",
        "BertForMultipleChoice",
        "BertForTokenClassification",
        "BertForQuestionAnswering",
    ],
} | {
    family: [family.capitalize() + head for head in DECODER_HEADS]
    for family in ["llama", "mistral", "qwen2", "qwen3", "mixtral"]
}
# Values of optional keys, each tried alone. Keys that a family does not read must change nothing.
DECODER_OPTIONS = {
    "tie_word_embeddings": [True, False],
    "num_key_value_heads": [1, 4],
    "head_dim": [4, 10],
    "attention_bias": [True, False],
    "mlp_bias": [True, False],
    "sliding_window": [8, None],
    "rope_theta": [1e6],
    "max_position_embeddings": [64],
    "dtype": ["bfloat16", "float32", "float16", "float64", None],
    "torch_dtype": ["float16", None],
}
OPTIONS = {family: dict(DECODER_OPTIONS) for family in LEAST} | {
    "gpt2": {
        "n_inner": [7, None],
        "tie_word_embeddings": [True, False],
        "hidden_size": [24],
        "n_ctx": [99],
        "add_cross_attention": [False],
        "activation_function": ["relu"],
        "dtype": ["bfloat16"],
    },
    "bert": {
        "type_vocab_size": [1, 3],
        "tie_word_embeddings": [True, False],
        "is_decoder": [True, False],
        "position_embedding_type": ["absolute"],
        "pruned_heads": [{}],
        "dtype": ["bfloat16"],
    },
}
OPTIONS["llama"] |= {"num_key_value_heads": [1, 4, None], "head_dim": [4, 10, None]}
OPTIONS["mistral"] |= {"head_dim": [4, 10, None]}
OPTIONS["mixtral"] |= {"head_dim": [4, 10, None], "num_experts": [3], "num_local_experts": [1]}
for qwen in ["qwen2", "qwen3"]:
    OPTIONS[qwen] |= {
        "num_key_value_heads": [1, 4, None],
        "use_sliding_window": [True],
        "layer_types": [["full_attention", "sliding_attention"]],
    }
HEAD_OPTIONS = {
    "num_labels": [1, 3],
    "id2label": [{"0": "a", "1": "b", "2": "c"}, None],
    "tie_word_embeddings": [True, False],
    "token_classification_bias": [False],
    "summary_use_proj": [False],
    "summary_proj_to_labels": [False],
}


def least(family: str) -> dict:
    return {"model_type": family} | LEAST[family]


def each_alone(options: dict[str, list]):
    """No option, then each value of each option."""
    yield {}
    for key, values in options.items():
        yield from ({key: value} for value in values)


def build(config: dict) -> torch.nn.Module:
    """What transformers makes of a config.json: the class it names, else the language model's."""
    values = CONFIG_MAPPING[config["model_type"]].from_dict(config)
    head = (config.get("architectures") or [None])[0]
    with torch.device("meta"):
        if head:
            return getattr(transformers, head)._from_config(values)
        if config["model_type"] == "bert":
            return transformers.AutoModelForMaskedLM.from_config(values)
        return transformers.AutoModelForCausalLM.from_config(values)


def rows_of(model: torch.nn.Module) -> list[dict]:
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [
        {
            "name": name,
            "shape": list(parameter.shape),
            "dtype": str(parameter.dtype).removeprefix("torch."),
            "aliases": names[id(parameter)][1:],
        }
        for name, parameter in model.named_parameters()
    ]


def write(folder: Path, config: dict) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def check_equal(dump, folder: Path, config: dict) -> None:
    ours = dump("config", write(folder, config))
    assert not isinstance(ours, str), f"{config}: {ours}"
    first, rows = ours
    model = build(config)
    assert rows == rows_of(model), config
    assert first["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    values = model.config
    assert first["shape"] == {
        "hidden": values.hidden_size,
        "layers": values.num_hidden_layers,
        "heads": values.num_attention_heads,
        "vocabulary": values.vocab_size,
        "positions": values.max_position_embeddings,
    }


@pytest.mark.parametrize("family", LEAST)
def test_each_optional_key(dump, tmp_path, family):
    for change in each_alone(OPTIONS[family]):
        check_equal(dump, tmp_path, least(family) | change)


@pytest.mark.parametrize("family", LEAST)
def test_each_architecture(dump, tmp_path, family):
    for head in HEADS[family]:
        for change in each_alone(HEAD_OPTIONS):
            check_equal(dump, tmp_path, least(family) | {"architectures": [head]} | change)


def random_config(numbers: random.Random) -> dict:
    """Any sizes that go together, and any of the optional keys at once."""
    family = numbers.choice(list(LEAST))
    heads = numbers.choice([1, 2, 3, 4, 6])
    divisors = [n for n in range(1, heads + 1) if heads % n == 0]
    sizes = {
        "hidden_size": 2 * heads * numbers.randint(1, 9),
        "num_hidden_layers": numbers.randint(1, 4),
        "num_attention_heads": heads,
        "intermediate_size": numbers.randint(1, 70),
        "vocab_size": numbers.randint(3, 99),
    }
    config = {"model_type": family} | sizes
    if family in ("gpt2", "bert"):
        config["max_position_embeddings"] = numbers.randint(1, 40)
    else:
        config["num_key_value_heads"] = numbers.choice(divisors)
    if family == "mixtral":
        config["num_local_experts"] = numbers.randint(1, 5)
    for key, values in OPTIONS[family].items():
        if key not in config and key not in ("num_experts", "layer_types"):
            if numbers.random() < 0.4:
                config[key] = numbers.choice(values)
    if numbers.random() < 0.7:
        config["architectures"] = [numbers.choice(HEADS[family])]
    if numbers.random() < 0.5:
        config["num_labels"] = numbers.randint(1, 5)
    return config


def test_random_configs(dump, tmp_path, tier):
    numbers = random.Random(20240917)
    for _ in range({"quick": 150, "full": 1500}[tier]):
        check_equal(dump, tmp_path, random_config(numbers))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("family", LEAST)
def test_what_transformers_cannot_build_is_refused(dump, tmp_path, family):
    """Wrong types and sizes: where transformers fails we must fail; we may refuse more than it."""
    values = [None, True, 1.0, "4", 0, -1, [], {}, 5]
    keys = [*LEAST[family], "head_dim", "n_inner", "type_vocab_size", "tie_word_embeddings"]
    keys += ["attention_bias", "mlp_bias", "dtype", "torch_dtype"]
    for key in keys:
        for value in values:
            config = least(family) | {key: value}
            ours = dump("config", write(tmp_path, config))
            try:
                theirs = rows_of(build(config))
            except Exception as error:  # noqa: BLE001: whatever it is, there is no model
                assert isinstance(ours, str), f"{config}: {error}"
                assert ours.startswith(key) or "a divisor of" in ours or "a multiple of" in ours
            else:
                assert isinstance(ours, str) or ours[1] == theirs, config


def test_builtin_models(dump, root):
    program = root / "build" / "release" / "bin" / "dump_model"
    lines = subprocess.run([program, "builtins"], text=True, capture_output=True, check=True).stdout
    builtins = list(map(json.loads, lines.splitlines()))
    with_config = [builtin for builtin in builtins if builtin["config"]]
    assert len(with_config) == 17
    for builtin in with_config:
        _, rows = dump("builtin", builtin["name"])
        assert rows == rows_of(build(json.loads(builtin["config"]))), builtin["name"]
