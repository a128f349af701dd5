"""The engines of the race, each with the same model and torch's fused AdamW. A step takes a batch
and returns the loss."""

import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from work import GPT, Size, set_values

ADAMW = {"lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "fused": True}


def adamw(model: nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), **ADAMW)


def made(size: Size) -> GPT:
    model = GPT(size)
    set_values(model.named_parameters())
    return model


class Plain:
    """No communication: what computing alone costs, the floor."""

    def __init__(self, size: Size):
        self.model = self.wrapped(made(size))
        self.optimizer = self.optimizer_of(self.model)

    def wrapped(self, model):
        return model

    def optimizer_of(self, model):
        return adamw(model)

    def step(self, ids, targets):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(ids, targets)
        loss.backward()
        self.optimizer.step()
        return loss


class Ddp(Plain):
    def wrapped(self, model):
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)


class Zero1(Ddp):
    def optimizer_of(self, model):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, **ADAMW
        )


class Fsdp2(Plain):
    def wrapped(self, model):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model


class DeepSpeed:
    """It clips gradients by default, and keeps small models gathered unless its limits are 0."""

    LIMITS = {
        "stage3_max_live_parameters": 0,
        "stage3_max_reuse_distance": 0,
        "stage3_param_persistence_threshold": 0,
    }

    def __init__(self, size: Size, stage: int, limits: bool):
        import deepspeed

        model = made(size)
        config = {
            "train_micro_batch_size_per_gpu": size.batch,
            "gradient_accumulation_steps": 1,
            "gradient_clipping": 0.0,
            "steps_per_print": 10**9,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": stage, **(self.LIMITS if limits else {})},
        }
        self.engine, *_ = deepspeed.initialize(
            model=model,
            model_parameters=model.parameters(),
            config=config,
            optimizer=adamw(model),
        )

    def step(self, ids, targets):
        loss = self.engine(ids, targets)
        self.engine.backward(loss)
        self.engine.step()
        return loss


class Ours:
    def __init__(self, size: Size, stage: int, shared_units: bool):
        import shardlight

        with shardlight.building():
            self.model = made(size)
        self.engine = shardlight.Engine(
            self.model, adamw(self.model), stage=stage, shared_units=shared_units
        )

    def step(self, ids, targets):
        loss = self.model(ids, targets)
        self.engine.backward(loss)
        self.engine.step()
        return loss

    def sent(self) -> int:
        moved = self.engine.traffic().moved
        return moved["gathered"] + moved["reduced"]


def import_seconds(name: str) -> float:
    """What the engine's own import takes, beyond torch's."""
    start = time.perf_counter()
    if name.startswith("deepspeed"):
        import deepspeed  # noqa: F401
    elif name.startswith("shardlight"):
        import shardlight  # noqa: F401
    return time.perf_counter() - start


ENGINES = {
    "plain": Plain,
    "ddp": Ddp,
    "zero1": Zero1,
    "fsdp2": Fsdp2,
    "deepspeed-1": lambda size: DeepSpeed(size, 1, limits=False),
    "deepspeed-2": lambda size: DeepSpeed(size, 2, limits=False),
    "deepspeed-3": lambda size: DeepSpeed(size, 3, limits=False),
    "deepspeed-3-limits-0": lambda size: DeepSpeed(size, 3, limits=True),
    "shardlight-0": lambda size: Ours(size, 0, shared_units=False),
    "shardlight-1": lambda size: Ours(size, 1, shared_units=False),
    "shardlight-2": lambda size: Ours(size, 2, shared_units=False),
    "shardlight-3": lambda size: Ours(size, 3, shared_units=False),
    "shardlight-3-shared": lambda size: Ours(size, 3, shared_units=True),
}


def start_ranks(name: str) -> None:
    if name.startswith("shardlight"):
        return  # over shared memory, by torchrun's variables
    if name.startswith("deepspeed"):
        os.environ["DS_ACCELERATOR"] = "cpu"
        import deepspeed

        deepspeed.init_distributed(dist_backend="gloo")
    else:
        dist.init_process_group("gloo")


def said(result: dict) -> str:
    return "RACE " + json.dumps(result)
