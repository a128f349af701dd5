"""Models of transformers, unmodified: at every stage and number of ranks losses and parameters
have the bits of one plain process."""

import re

import pytest

QUICK = {
    2: {"GPT-2": "123", "Llama": "3", "Mistral": "3", "Qwen3": "3", "BERT": "3", "T5": "3"}
    | {"ViT": "3", "Mixtral": "23", "MiniLM": "13"},
    3: {"GPT-2": "23", "T5": "1"},
}


@pytest.mark.parametrize("ranks", [2, 3])
def test_models_have_the_bits_of_one_plain_process(run_ranks, tier, ranks):
    stages = QUICK[ranks] if tier == "quick" else dict.fromkeys(QUICK[2], "123")
    words = [word for pair in stages.items() for word in pair]
    printed = run_ranks(ranks, "train_models.py", *words)
    expected = [(name, stage) for name, some in stages.items() for stage in some]
    assert re.findall(r"^(\S+) at stage (\d): equal$", printed, re.MULTILINE) == expected
