"""What an engine can be told, by name; the engine judges the values."""

from __future__ import annotations

import difflib
from typing import Any

from typing_extensions import TypedDict

from shardlight import _engine
from shardlight._errors import user_error


class Choices(TypedDict, total=False):
    """Sizes are in bytes, times in seconds. docs/engine.md says more of each."""

    stage: int  # 0 all replicated (as it is), 1 optimizer states sharded, 2 gradients, 3 parameters
    accumulation: int  # backward passes a step (1)
    clip_norm: float | None  # the most that the 2-norm of all gradients may be (None)
    ranks: Any  # "auto" (as it is), "shm", "c10d" or a torch.distributed process group
    deadline: float  # of every wait for another rank (300); then it is an error that names it
    unit_bytes: int  # of a sharding unit (1 MiB)
    gathered_bytes: int | None  # the most that gathered parameters take; None: two largest units
    prefetch_bytes: int  # of them, how much may be fetched ahead (0)
    bucket_bytes: int  # of gradients that may wait while backward goes on (0)
    shared_units: bool  # at stage 3 on one host, parameters are read where ranks share them (False)
    retain: bool  # False: a unit is released as soon as another one is used (True)
    reduce: str  # "default" (as it is), "once" (a step) or "every-micro-step"
    grad_dtype: str  # of gradients' sums: "fp32" (as it is), or "compute", the parameters' own
    order: str | tuple[str, int]  # ranks are added "linear" (as it is), "tree", ("grouped", SIZE)
    reproducible: bool  # the same bits for any split of a batch over ranks (False)
    seed: int | None  # torch's generator is set by (seed, step, micro-batch) (None: it is not)
    synchronize_buffers: bool  # each step ends with rank 0's buffers on all ranks (False)
    sanity_steps: int  # first steps after which ranks compare what they all hold (2)
    loss_scale: float  # of models with fp16 parameters, at first (32768)
    loss_scale_growth_interval: int  # steps without one that was skipped, until it doubles (2000)
    poison: bool  # for debugging: memory that went away is filled with NaN (False)


def check_names(choices: dict[str, Any]) -> None:
    for name in choices:
        if name not in Choices.__annotations__:
            near = difflib.get_close_matches(name, Choices.__annotations__, n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise user_error(name, "given", meant + "one of: " + ", ".join(Choices.__annotations__))


def options_of(choices: Choices) -> _engine.Options:
    """All but the ranks. Errors: a value of another type, or one that the engine does not allow."""
    options = _engine.Options()
    for name, value in choices.items():
        if name != "ranks":
            _set(options, name, value)
    return options


def _set(options: _engine.Options, name: str, value: Any) -> None:
    try:
        setattr(options, name, value)
    except TypeError:
        kind = Choices.__annotations__[name]
        raise user_error(name, repr(value), f"a value of type {_text(kind)}") from None


def _text(kind: Any) -> str:
    return getattr(kind, "__forward_arg__", str(kind))
