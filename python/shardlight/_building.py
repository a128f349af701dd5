"""Models that no rank could hold: `with shardlight.building():` around what makes one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from typing_extensions import Unpack

from shardlight import _engine
from shardlight._errors import user_error
from shardlight._options import Choices, check_names, options_of
from shardlight._ranks import ranks_of

_TAKEN = ("gathered_bytes", "ranks", "deadline")

# Of the model that was built last, until an engine takes it.
_waiting: _engine.BuildingScope | None = None


@contextlib.contextmanager
def building(**choices: Unpack[Choices]) -> Iterator[None]:
    """No rank ever holds the whole model that is made in it.

        with shardlight.building():
            model = AutoModelForCausalLM.from_config(config)
        engine = shardlight.Engine(model, torch.optim.AdamW(model.parameters()), stage=3)

    All ranks run it together, from rank 0's random state, and make an engine of the model next:
    until then its values may be away. `gathered_bytes`, `ranks` and `deadline`, all that it takes,
    are as the engine's; the ranks are the engine's too.
    """
    global _waiting
    check_names(dict(choices))
    for name, value in choices.items():
        if name not in _TAKEN:
            allowed = "it where the engine is made; here " + ", ".join(_TAKEN)
            raise user_error(name, str(value), allowed)
    if _waiting is not None:
        raise user_error("building", "before the last model has an engine", "one model at a time")
    options = options_of(choices)
    options.ranks = ranks_of(choices.get("ranks", "auto"), torch.device("cpu"), options.deadline)
    scope = _engine.BuildingScope(options)
    try:
        yield
    except Exception:
        # Torch has only said that no memory came.
        scope.check()
        raise
    scope.end()
    _waiting = scope


def take_scope() -> _engine.BuildingScope | None:
    """What was built and has no engine yet; it is the caller's then."""
    global _waiting
    scope, _waiting = _waiting, None
    return scope
