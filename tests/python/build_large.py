"""A rank's part of test_building.py. Words: `plain` or `built` makes a Llama whose parameters this
rank may not have the memory for, and trains it a step; `save FOLDER` writes it, `pretrained FOLDER`
loads and trains it; `same` makes a small one beside a plain process.
"""

import contextlib
import re
import resource
import sys
import threading
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


def made() -> torch.nn.Module:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**LARGE))


def train(scope, case: Case) -> tuple[shardlight.Engine, torch.nn.Module]:
    with scope:
        model = case.make()
    engine = shardlight.Engine(model, sgd(model), stage=3)
    engine.backward(case.loss(model, draws(0, engine.rank)))
    engine.step()
    return engine, model


def warm_up() -> None:
    """What torch and transformers take at first."""
    small = next(case for case in models.cases() if case.name == "Llama")
    small.loss(small.make(), draws(0, 0)).backward()


def large(scope) -> None:
    warm_up()
    case = Case("Llama", made, models.language_loss)
    limit_memory()
    engine, model = train(scope, case)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert 4 * count > 1.3 * ALLOWED
    print(f"trained {count} parameters")


def held() -> int:
    """Bytes of this process's memory, without pages of files; shared ones by their share."""
    with open("/proc/self/smaps_rollup") as file:
        rollup = dict(line.split()[:2] for line in file if line.startswith("Pss"))
    return 1024 * (int(rollup["Pss_Anon:"]) + int(rollup["Pss_Shmem:"]))


class Peak(threading.Thread):
    """The most of held(), looked at all the time."""

    def __init__(self):
        super().__init__(daemon=True)
        self.bytes, self.ended = 0, False

    def run(self):
        while not self.ended:
            self.bytes = max(self.bytes, held())


def pretrained(folder: str) -> None:
    """No limit holds here: what is mapped of a file counts as data of the process."""
    warm_up()
    case = Case(
        "Llama", lambda: hf.LlamaForCausalLM.from_pretrained(folder), models.language_loss
    )
    before, peak = held(), Peak()
    peak.start()
    engine, model = train(contextlib.nullcontext(), case)
    peak.ended = True
    peak.join()
    grown, counted = peak.bytes - before, engine.memory().total.peak
    held_whole = 4 * sum(parameter.numel() for parameter in model.parameters())
    # Beyond what is on the engine's account, which has no whole model on it, hardly a thing.
    assert grown < counted + held_whole / 8, f"{grown} bytes, {counted} of them counted"
    own = engine.plan().stages[3]
    assert counted < own.states + own.gathered + held_whole / 2, counted
    print(f"trained {held_whole} bytes of parameters in {grown}")


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
    elif sys.argv[1] == "save":
        made().save_pretrained(sys.argv[2])
    elif sys.argv[1] == "pretrained":
        pretrained(sys.argv[2])
    else:
        large(shardlight.building() if sys.argv[1] == "built" else contextlib.nullcontext())
