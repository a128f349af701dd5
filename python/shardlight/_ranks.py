"""Which ranks an engine has: those of this host over shared memory, or a process group's; and what
launchers say of a rank's place."""

from __future__ import annotations

import atexit
import os
import tempfile
import weakref
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from shardlight import _engine
from shardlight._errors import user_error

# Of this process's engines that nobody has closed.
ends_of_engines: list[weakref.finalize] = []

_ALLOWED = "auto, shm, c10d, or a torch.distributed.ProcessGroup"


@dataclass(frozen=True)
class _Launcher:
    """Its variables, as in shardlight/comm/place.cpp; "" where it does not say."""

    rank: str
    world: str
    rank_local: str
    world_local: str = ""
    hosts: tuple[str, ...] = ()  # how many there are; the first that is set


LAUNCHERS = (
    _Launcher("SHARDLIGHT_RANK", "SHARDLIGHT_WORLD", "SHARDLIGHT_RANK"),
    _Launcher("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    _Launcher(
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher(
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_LOCALID",
        hosts=("SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
    ),
)


@dataclass(frozen=True)
class Place:
    rank: int = 0
    world: int = 1
    rank_local: int = 0
    several_hosts: bool = False


def place() -> Place:
    """Of this process, as its launcher says; of one that nobody launched, rank 0 of 1."""
    said = {name: value for name, value in os.environ.items() if value}
    for launcher in LAUNCHERS:
        if launcher.rank in said and launcher.world in said:
            rank, world = said[launcher.rank], said[launcher.world]
            here = said.get(launcher.world_local, world)
            hosts = next((said[name] for name in launcher.hosts if name in said), "1")
            return Place(
                int(rank),
                int(world),
                int(said.get(launcher.rank_local, rank)),
                here != world or hosts != "1",
            )
    return Place()


def resolved(choice: Any, device: torch.device) -> Any:
    """`auto`: shared memory where all ranks are on one host and the model is on the CPU, else
    torch.distributed."""
    if isinstance(choice, str) and choice == "auto":
        return "c10d" if device.type != "cpu" or place().several_hosts else "shm"
    return choice


def ranks_of(choice: Any, device: torch.device, deadline: float) -> _engine.Ranks:
    """The default group of torch.distributed is initialised if it is needed and is not."""
    choice = resolved(choice, device)
    if isinstance(choice, str):
        if choice == "shm":
            return _engine.ranks_of_host(deadline)
        if choice == "c10d":
            return _of_group(_default_group(device), deadline)
    elif dist.is_available() and isinstance(choice, dist.ProcessGroup):
        return _of_group(choice, deadline)
    raise user_error("ranks", str(choice), _ALLOWED)


def _default_group(device: torch.device) -> dist.ProcessGroup:
    if not dist.is_available():
        raise user_error("ranks", "c10d", "shm, as this PyTorch has no torch.distributed")
    if not dist.is_initialized():
        start_group("gloo" if device.type == "cpu" else None)
    return dist.group.WORLD


def start_group(
    backend: str | None,
    *,
    rank: int = -1,
    world: int = -1,
    port: int = 29500,
    timeout: timedelta | None = None,
    init_method: str | None = None,
) -> None:
    """torch.distributed's default group, whichever launcher started the ranks. `port` counts where
    MASTER_PORT is not set. Raises UserError where nothing says where the ranks meet."""
    here = place()
    if rank < 0:
        rank, world = here.rank, here.world
    if init_method is None:
        init_method = _method(world, here.several_hosts, port)
    dist.init_process_group(
        backend, init_method=init_method, rank=rank, world_size=world, timeout=timeout
    )
    end_group_at_exit()


def _method(world: int, several_hosts: bool, port: int) -> str:
    if os.environ.get("MASTER_ADDR"):
        os.environ.setdefault("MASTER_PORT", str(port))
        return "env://"
    job = os.environ.get("SHARDLIGHT_JOB")
    if world > 1 and (job is None or several_hosts):
        raise user_error(
            "MASTER_ADDR",
            "not set",
            "the host of rank 0, for torch.distributed; MASTER_PORT too. On one host SHARDLIGHT_JOB"
            " will do, a name that no other job has",
        )
    name = f"shardlight-{job or os.getpid()}"
    return "file://" + os.path.join(tempfile.gettempdir(), name)


def end_group_at_exit() -> None:
    """Of a group that we began: its threads, which may let go of tensors of Python, end while the
    interpreter still runs; after that they would abort the process. Engines end before it."""

    def end() -> None:
        for end_engine in reversed(ends_of_engines):
            end_engine()
        if dist.is_initialized():
            dist.destroy_process_group()

    atexit.register(end)


def _of_group(group: dist.ProcessGroup, deadline: float) -> _engine.Ranks:
    store = dist.distributed_c10d._get_default_store()
    return _engine.ranks_of_process_group(group, store, deadline)
