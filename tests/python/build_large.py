"""A rank's part of test_building.py. Words: `plain` or `built` makes a Llama whose parameters this
rank may not have the memory for, and trains it a step; `same` a small one beside a plain process.
"""

import contextlib
import re
import resource
import sys
from pathlib import Path

import models
import shardlight
import torch
import transformers as hf
from twins import Case, Twin, draws, expect_same_state

LARGE = {**models.SMALL, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 8}
ALLOWED = 80 << 20  # beside what the process has; its parameters alone are more


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, fused=True)


def limit_memory() -> None:
    status = Path("/proc/self/status").read_text()
    (has,) = re.findall(r"^VmData:\s+(\d+) kB$", status, re.MULTILINE)
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * int(has) + ALLOWED,) * 2)


def train(scope, case: Case) -> tuple[shardlight.Engine, torch.nn.Module]:
    with scope:
        model = case.make()
    engine = shardlight.Engine(model, sgd(model), stage=3)
    engine.backward(case.loss(model, draws(0, engine.rank)))
    engine.step()
    return engine, model


def large(scope) -> None:
    # What torch and transformers take at first.
    small = next(case for case in models.cases() if case.name == "Llama")
    small.loss(small.make(), draws(0, 0)).backward()
    case = Case("Llama", lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LARGE)), models.language_loss)
    limit_memory()
    engine, model = train(scope, case)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert 4 * count > 1.3 * ALLOWED
    print(f"trained {count} parameters")


def same() -> None:
    case = next(case for case in models.cases() if case.name == "Qwen3")
    twin = Twin(case, sgd)
    engine, model = train(shardlight.building(), case)
    twin.step(0, engine.world)
    expect_same_state(engine.state_dict(), twin.model, case.name)
    engine.close()
    expect_same_state(model.state_dict(), twin.model, f"{case.name} after the engine")
    print("same as plain")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "same":
        same()
    else:
        large(shardlight.building() if sys.argv[1] == "built" else contextlib.nullcontext())
