"""A rank's part of test_models.py: trains models at a stage beside a plain process, and compares
losses and parameters bit for bit. Words: MODEL STAGES, as in GPT-2 123, as often as wanted."""

import sys

import models
import shardlight
import torch
from twins import Twin, adamw, draws, expect_same_state, same_bits

STEPS = 3


def train(case, stage: int) -> None:
    twin, model = Twin(case, adamw), case.make()
    with shardlight.Engine(model, adamw(model), stage=stage, unit_bytes=16 << 10) as engine:
        for step in range(STEPS):
            loss = case.loss(model, draws(step, engine.rank))
            engine.backward(loss)
            engine.step()
            expected = twin.step(step, engine.world)[engine.rank]
            assert same_bits(loss.detach(), expected), f"{case.name}: {loss} and {expected}"
        expect_same_state(engine.state_dict(), twin.model, case.name)
        rank = engine.rank
    expect_same_state(model.state_dict(), twin.model, f"{case.name} after the engine")
    if rank == 0:
        print(f"{case.name} at stage {stage}: equal")


if __name__ == "__main__":
    torch.set_num_threads(1)
    every = {case.name: case for case in models.cases()}
    if "MiniLM" in sys.argv:
        every["MiniLM"] = models.minilm()
    for name, stages in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        for stage in stages:
            train(every[name], int(stage))
