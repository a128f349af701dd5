"""A rank's part of test_deepspeed_engine.py: what needs two ranks, in one program."""

import sys
from pathlib import Path

import shardlight
import shardlight.deepspeed as deepspeed
import torch
from torch import nn
from twins import draws, same_bits

STEPS, ACCUMULATION, UNITS = 3, 2, {"unit_bytes": 1 << 10}


def net() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 24), nn.Linear(24, 8))


def loss_of(call, draw) -> torch.Tensor:
    batch = torch.randn(4, 24, generator=draw)
    return call(batch.to(next(call.parameters()).dtype)).float().square().mean()


def alone(stage, dtype, rank):
    """Losses, norms and state of shardlight.Engine itself, with the schedule by hand."""
    model = net().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.8, 0.9), weight_decay=0.0)
    choices = {"stage": stage, "accumulation": ACCUMULATION, "clip_norm": 0.1, **UNITS}
    losses, norms = [], []
    with shardlight.Engine(model, optimizer, **choices) as engine:
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = (0.0, 0.0, 0.02)[step]
            for micro in range(ACCUMULATION):
                losses.append(loss_of(model, draws(10 * step + micro, rank)))
                engine.backward(losses[-1])
            norms.append(engine.step().gradient_norm)
        return losses, norms, engine.state_dict()


def config_of(stage, dtype):
    return {
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": ACCUMULATION,
        "gradient_clipping": 0.1,
        # Lanes and caps change no bit.
        "zero_optimization": {"stage": stage, "overlap_comm": stage == 3,
                              "stage3_max_live_parameters": 1e9},
        "bf16": {"enabled": dtype == torch.bfloat16},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "betas": [0.8, 0.9]}},
    }  # fmt: skip


def train(stage, dtype) -> None:
    rank = deepspeed.comm.get_rank()
    losses, norms, state = alone(stage, dtype, rank)
    engine, optimizer, loader, scheduler = deepspeed.initialize(
        model=net(), config=config_of(stage, dtype), choices=UNITS,
        lr_scheduler=lambda outer: torch.optim.lr_scheduler.LambdaLR(
            outer, lambda step: 2.0 if step == 2 else 0.0
        ),
    )  # fmt: skip
    assert engine.train_batch_size() == 4 * ACCUMULATION * engine.world_size
    assert (loader, optimizer, scheduler) == (None, engine.optimizer, engine.lr_scheduler)
    for step in range(STEPS):
        for micro in range(ACCUMULATION):
            loss = loss_of(engine, draws(10 * step + micro, rank))
            expected = losses.pop(0)
            assert same_bits(loss.detach(), expected.detach()), f"{stage}: {loss}, {expected}"
            last = micro + 1 == ACCUMULATION
            assert engine.is_gradient_accumulation_boundary() == last
            assert same_bits(engine.backward(loss), expected.detach() / ACCUMULATION)
            engine.step()
        assert engine.get_global_grad_norm() == norms[step]
    assert (engine.global_steps, engine.micro_steps) == (STEPS, STEPS * ACCUMULATION)
    ours = engine.module_state_dict()
    assert all(same_bits(ours[name], some) for name, some in state.items())
    engine.destroy()
    if rank == 0:
        print(f"stage {stage} in {dtype}: equal")


class Weight(nn.Module):
    """Whose gradient is what it is called with."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(70))

    def forward(self, factor):
        return (self.weight * factor).sum()


def weight_engine(accumulation, stage=2):
    config = {
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulation,
        "gradient_clipping": 0, "optimizer": {"type": "SGD", "params": {"lr": 1.0}},
        "zero_optimization": {"stage": stage},
    }  # fmt: skip
    return deepspeed.initialize(model=Weight(), config=config)[0]


def moved(engine, value) -> None:
    state = engine.module_state_dict()["weight"]
    assert torch.equal(state, torch.full((70,), value)), f"{state} and {value}"


def boundaries() -> None:
    """However many micro-batches: their gradients, over accumulation times ranks."""
    for accumulation in (1, 2):
        for passes in (1, 2, 3, 5):
            engine = weight_engine(accumulation)
            for index in range(passes):
                engine.set_gradient_accumulation_boundary(index + 1 == passes)
                engine.backward(engine(2.0 ** (index + engine.global_rank)))
            engine.step()
            total = sum(2.0 ** (i + rank) for i in range(passes) for rank in range(2))
            moved(engine, -total / (2 * accumulation))
            engine.destroy()
    engine = weight_engine(1)
    with engine.no_sync():
        engine.backward(engine(4.0))
    loss = engine(1.0)
    engine.backward(loss, retain_graph=True, scale_wrt_gas=False)
    engine.step()
    moved(engine, -5.0)
    engine.destroy()
    engine = weight_engine(2)
    for _ in range(2):
        engine.backward(engine(1.0), scale_wrt_gas=False)
        engine.step()
    moved(engine, -2.0)
    engine.destroy()


def gathered(folder) -> None:
    engine = weight_engine(1, stage=3)
    weight, rank = engine.module.weight, engine.global_rank
    assert weight.shape == (70,)
    with deepspeed.zero.GatheredParameters(weight, modifier_rank=1):
        if rank == 1:
            weight.data[3] = 5.0
            weight.data.numpy()[4] = 6.0  # seen by no operator
    with deepspeed.zero.GatheredParameters([weight]), torch.no_grad():
        assert weight[:6].tolist() == [0, 0, 0, 5, 6, 0]
        weight[0] = 1.0  # alike on all ranks
    engine.backward(engine(0.0))
    engine.step()
    assert engine.module_state_dict()["weight"][:6].tolist() == [1, 0, 0, 5, 6, 0]
    engine.save_16bit_model(folder, "weights.bin")
    deepspeed.comm.barrier()
    saved = torch.load(Path(folder, "weights.bin"))
    assert saved["weight"][:6].tolist() == [1, 0, 0, 5, 6, 0]
    with deepspeed.zero.GatheredParameters(weight), torch.no_grad():
        weight[0] = float(rank)
    engine.backward(engine(0.0))
    try:
        engine.step()
    except shardlight.UserError as error:
        assert "weight" in str(error), error
    else:
        raise AssertionError("edits that differ were taken")
    engine.destroy()
    plain = nn.Linear(2, 2)  # of no engine
    with deepspeed.zero.GatheredParameters(plain.parameters(), modifier_rank=1), torch.no_grad():
        plain.weight.fill_(rank)
    assert plain.weight.eq(1).all()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for stage in range(4):
        train(stage, torch.float32)
    train(3, torch.bfloat16)
    boundaries()
    gathered(sys.argv[1])
    if deepspeed.comm.get_rank() == 0:
        print("boundaries and edits: kept")
