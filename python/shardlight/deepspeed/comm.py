"""deepspeed.comm: rank, world size, and torch.distributed's functions over its default group, which
is initialised when it is first needed. The engine itself does not need it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from shardlight._errors import user_error
from shardlight._ranks import place, start_group

def is_available() -> bool:
    return dist.is_available()


def is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()


def get_rank(group: Any = None) -> int:
    return dist.get_rank(group) if is_initialized() else place().rank


def get_world_size(group: Any = None) -> int:
    return dist.get_world_size(group) if is_initialized() else place().world


def get_local_rank() -> int:
    return place().rank_local


def init_distributed(
    dist_backend: str | None = None,
    auto_mpi_discovery: bool = True,
    distributed_port: int = 29500,
    verbose: bool = True,
    timeout: timedelta | None = None,
    init_method: str | None = None,
    dist_init_required: bool | None = None,
    config: Any = None,
    rank: int = -1,
    world_size: int = -1,
) -> None:
    """torch.distributed's default group, on all ranks; nothing where there is one, or where
    `dist_init_required` is False. `distributed_port` counts where MASTER_PORT is not set;
    `auto_mpi_discovery`, `verbose` and `config` change nothing."""
    if dist_init_required is False or is_initialized():
        return
    if not dist.is_available():
        raise user_error("init_distributed()", "called", "a PyTorch with torch.distributed")
    start_group(
        dist_backend or "gloo",
        rank=rank,
        world=world_size,
        port=distributed_port,
        timeout=timeout,
        init_method=init_method,
    )


def barrier(group: Any = None, async_op: bool = False, **ignored: Any) -> Any:
    """Of DeepSpeed's arguments only `group` and `async_op` are used."""
    if get_world_size() == 1:
        return None
    init_distributed()
    return dist.barrier(group=group, async_op=async_op)


def __getattr__(name: str) -> Any:
    """torch.distributed's."""
    if name.startswith("_") or not hasattr(dist, name):
        raise AttributeError(f"shardlight.deepspeed.comm has no {name}, nor has torch.distributed")
    function = getattr(dist, name)
    if not callable(function) or isinstance(function, type):
        return function

    def called(*args: Any, **kwargs: Any) -> Any:
        init_distributed()
        return function(*args, **kwargs)

    return called
