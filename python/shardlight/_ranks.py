"""Which ranks an engine has: those of this host over shared memory, or a process group's."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

import torch
import torch.distributed as dist

from shardlight import _engine
from shardlight._errors import user_error

# Of this process's engines that nobody has closed.
ends_of_engines: list[weakref.finalize] = []

_ALLOWED = "auto, shm, c10d, or a torch.distributed.ProcessGroup"


def _several_hosts() -> bool:
    """By torchrun's variables; other launchers' are the engine's to read."""
    local, world = os.environ.get("LOCAL_WORLD_SIZE"), os.environ.get("WORLD_SIZE")
    return local is not None and world is not None and local != world


def ranks_of(choice: Any, device: torch.device, deadline: float) -> _engine.Ranks:
    """`auto`: shared memory where all ranks are on one host and the model is on the CPU, else
    torch.distributed, whose default group is initialised if it is not."""
    if isinstance(choice, str):
        if choice == "auto":
            choice = "c10d" if device.type != "cpu" or _several_hosts() else "shm"
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
        dist.init_process_group("gloo" if device.type == "cpu" else None)
        end_group_at_exit()
    return dist.group.WORLD


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
