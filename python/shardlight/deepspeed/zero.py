"""deepspeed.zero: contexts in which sharded parameters have their whole values, and in which models
are made."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import torch
from torch import nn

from shardlight._errors import user_error
from shardlight.deepspeed import comm
from shardlight.deepspeed._read import Reader, load
from shardlight.engine import Engine

# Engines that live, with the ids of their parameters.
_ENGINES: list[tuple[weakref.ref[Engine], frozenset[int]]] = []


def enter(engine: Engine) -> None:
    """Lets contexts find it by its parameters."""
    _ENGINES[:] = [some for some in _ENGINES if some[0]() is not None]
    _ENGINES.append((weakref.ref(engine), frozenset(map(id, engine.model.parameters()))))


def leave(engine: Engine) -> None:
    _ENGINES[:] = [some for some in _ENGINES if some[0]() not in (None, engine)]


class GatheredParameters:
    """In it `params` have their whole values in memory; all ranks enter it, with the same ones.

    With `modifier_rank`, what that rank has at the end is what all ranks have. Without one, edits
    are kept too, and must be alike on all ranks; if they are not, the next step says so by name.
    `fwd_module` is not needed. Raises UserError for a rank that is not there.
    """

    def __init__(
        self,
        params: torch.Tensor | Iterable[torch.Tensor],
        modifier_rank: int | None = None,
        fwd_module: nn.Module | None = None,
        enabled: bool = True,
    ) -> None:
        chosen = [params] if isinstance(params, torch.Tensor) else list(params)
        self.params = list({id(p): p for p in chosen if isinstance(p, torch.Tensor)}.values())
        self.enabled = enabled and bool(self.params)
        self.modifier_rank = modifier_rank
        world = comm.get_world_size()
        if modifier_rank is not None and not 0 <= modifier_rank < world:
            raise user_error("modifier_rank", str(modifier_rank), f"None, or 0 to {world - 1}")
        self._scopes = contextlib.ExitStack()

    def __enter__(self) -> None:
        if not self.enabled:
            return
        for reference, known in _ENGINES:
            engine, here = reference(), [p for p in self.params if id(p) in known]
            if engine is not None and here:
                # Written by other means than operators, as through numpy, it counts as well.
                write = self.modifier_rank is not None
                self._scopes.enter_context(engine.gathered(here, write=write))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.enabled:
            return
        with self._scopes:
            if kind is None and self.modifier_rank is not None:
                for parameter in self.params:
                    _broadcast(parameter, self.modifier_rank)


@torch.no_grad()
def _broadcast(parameter: torch.Tensor, source: int) -> None:
    if comm.get_world_size() == 1:
        return
    # A tensor of its own: what a process group writes no operator would be seen to write.
    value = parameter.detach().clone(memory_format=torch.contiguous_format)
    comm.broadcast(value, source)
    if comm.get_rank() != source:
        parameter.copy_(value)


def _dtype_of(config: Any) -> torch.dtype | None:
    """That of the engine's parameters; None without a config."""
    if config is None:
        return None
    given = Reader(load(config)).values
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        if given.get(f"{name}.enabled") is True:
            return dtype
    return torch.float32


class Init:
    """Makes models as they are made anywhere: whole, on each rank, with true shapes, dtypes and
    counts. The engine shards them when initialize() is called, and casts them if the config says
    so; until then a rank needs memory for all of the model. `module`, which is made already, waits
    for that too. Raises UserError for what would have to be kept elsewhere, or in a dtype that is
    not the config's."""

    def __init__(
        self,
        module: nn.Module | None = None,
        data_parallel_group: Any = None,
        mem_efficient_linear: bool = True,
        remote_device: str | None = None,
        pin_memory: bool = False,
        config_dict_or_path: Any = None,
        config: Any = None,
        enabled: bool = True,
        dtype: torch.dtype | None = None,
        mpu: Any = None,
        zero_param_parallel_group: Any = None,
        zero_quantized_weights: bool = False,
        zero_quantized_nontrainable_weights: bool = False,
        sequence_data_parallel_group: Any = None,
        param_swapper: Any = None,
    ) -> None:
        if remote_device == "nvme":
            raise user_error("remote_device", "nvme", "cpu or None: nothing is kept on NVMe yet")
        for name, value in (
            ("data_parallel_group", data_parallel_group),
            ("mpu", mpu),
            ("zero_param_parallel_group", zero_param_parallel_group),
            ("sequence_data_parallel_group", sequence_data_parallel_group),
        ):
            if value is not None:
                raise user_error(name, "given", "none: all ranks are data parallel")
        for name, value in (
            ("zero_quantized_weights", zero_quantized_weights),
            ("zero_quantized_nontrainable_weights", zero_quantized_nontrainable_weights),
            ("param_swapper", param_swapper),
        ):
            if value:
                raise user_error(name, "given", "none: parameters move as they are, in memory")
        told = config_dict_or_path if config_dict_or_path is not None else config
        if dtype is not None and dtype != _dtype_of(told):
            raise user_error("dtype", str(dtype), "None, or what fp16 and bf16 of a config say")

    def __enter__(self) -> Init:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


def register_external_parameter(module: nn.Module, parameter: torch.Tensor) -> None:
    """Nothing to do: a parameter may be used by any module, as each use brings its own."""


def unregister_external_parameter(module: nn.Module, parameter: torch.Tensor) -> None:
    """Nothing to do."""
