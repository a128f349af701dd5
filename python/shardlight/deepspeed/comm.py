"""deepspeed.comm: rank, world size, and torch.distributed's functions over its default group, which
is initialised when it is first needed. The engine itself does not need it."""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from shardlight._errors import user_error
from shardlight._ranks import end_group_at_exit

# Rank, world size and rank on the host, as launchers tell them; docs/exchange.md.
_LAUNCHERS = (
    ("SHARDLIGHT_RANK", "SHARDLIGHT_WORLD", "SHARDLIGHT_RANK"),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def _place() -> tuple[int, int, int]:
    """Rank, world size and rank on the host; of a program that nobody launched 0, 1 and 0."""
    for rank, world, local in _LAUNCHERS:
        if rank in os.environ and world in os.environ:
            own = os.environ[rank]
            return int(own), int(os.environ[world]), int(os.environ.get(local, own))
    return 0, 1, 0


def is_available() -> bool:
    return dist.is_available()


def is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()


def get_rank(group: Any = None) -> int:
    return dist.get_rank(group) if is_initialized() else _place()[0]


def get_world_size(group: Any = None) -> int:
    return dist.get_world_size(group) if is_initialized() else _place()[1]


def get_local_rank() -> int:
    return _place()[2]


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
    `dist_init_required` is False. The first four arguments but `dist_backend` change nothing."""
    if dist_init_required is False or is_initialized():
        return
    if not dist.is_available():
        raise user_error("init_distributed()", "called", "a PyTorch with torch.distributed")
    place = _place()
    rank, world = (rank, world_size) if rank >= 0 else place[:2]
    dist.init_process_group(
        dist_backend or "gloo",
        init_method=init_method or _method(world),
        rank=rank,
        world_size=world,
        timeout=timeout,
    )
    end_group_at_exit()


def _method(world: int) -> str:
    if "MASTER_ADDR" in os.environ:
        return "env://"
    job = os.environ.get("SHARDLIGHT_JOB")
    if job is None and world > 1:
        raise user_error(
            "MASTER_ADDR", "not set", "the host of rank 0, for torch.distributed; MASTER_PORT too"
        )
    name = f"shardlight-{job or os.getpid()}"
    return "file://" + os.path.join(tempfile.gettempdir(), name)


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
