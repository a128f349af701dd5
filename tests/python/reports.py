"""A rank's part of test_reports.py: what an engine says of a Llama at each stage, to the byte."""

import models
import shardlight
import torch
from twins import adamw, draws


def check(case, stage: int) -> str:
    model = case.make()
    options = {"stage": stage, "unit_bytes": 0, "retain": False}
    with shardlight.Engine(model, adamw(model), **options) as engine:
        for step in range(2):
            before = engine.traffic().moved
            engine.backward(case.loss(model, draws(step, engine.rank)))
            engine.step()
        plan, memory = engine.plan(), engine.memory()
        own = plan.stages[stage]
        padded = sum(unit.elements for unit in plan.units)
        after = engine.traffic().moved
        moved = {key: after[key] - before[key] for key in after}
        if stage == 3:  # backward reads no embedding, whose unit is fetched once
            once = max(unit.bytes for unit in plan.units)
            assert 0 <= own.traffic["gathered"] - moved["gathered"] <= once
            moved["gathered"] = own.traffic["gathered"]
        assert own.traffic == moved
        for tag in ("parameters", "gradients", "optimizer"):
            assert memory.tags[tag].ledger == getattr(own, tag), tag
        for tag in ("parameters", "gradients"):
            assert memory.tags[tag].now == getattr(own, tag), tag
        # AdamW has a counter for each tensor beside its two states, and the gradients' divisor.
        tensors = len(list(model.parameters()))
        counters = memory.tags["optimizer"].now - own.optimizer
        assert 0 < counters <= 4 * (tensors + 1) and counters % 4 == 0, counters
        elements = sum(parameter.numel() for parameter in model.parameters())
        assert elements <= padded < elements + 64 * tensors
        assert plan.stages[0].parameters == 4 * padded
        assert plan.stages[0].optimizer == 8 * elements
        assert plan.stages[3].states <= plan.stages[0].states / engine.world + 64 * 4 * tensors
        assert f"{stage} (this)" in str(plan) and "optimizer" in str(memory)
        return f"stage {stage}: to the byte"


if __name__ == "__main__":
    torch.set_num_threads(1)
    llama = next(case for case in models.cases() if case.name == "Llama")
    for stage in range(4):
        print(check(llama, stage))
