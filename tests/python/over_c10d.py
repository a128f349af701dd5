"""A rank's part of a test: at stage 3 over torch.distributed's group, beside a plain process."""

import models
import shardlight
import torch
from twins import Twin, adamw, draws, expect_same_state

torch.set_num_threads(1)
case = models.cases()[0]
twin, model = Twin(case, adamw), case.make()
with shardlight.Engine(model, adamw(model), stage=3, ranks="c10d") as engine:
    assert torch.distributed.is_initialized()
    for step in range(2):
        engine.backward(case.loss(model, draws(step, engine.rank)))
        engine.step()
        twin.step(step, engine.world)
    expect_same_state(engine.state_dict(), twin.model, case.name)
    print(f"rank {engine.rank}: equal over c10d")
torch.distributed.destroy_process_group()
