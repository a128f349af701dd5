"""What training loops already call, on the optimizer and on the model, as the engine has it: right,
or an error that names the call to use instead."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from shardlight._errors import user_error

if TYPE_CHECKING:
    from shardlight.engine import Engine


def bind_optimizer(optimizer: torch.optim.Optimizer, engine: Engine) -> None:
    """Its own calls become the engine's, so that loops, LR schedulers and GradScaler work."""
    reference = weakref.ref(engine)

    def step(self: torch.optim.Optimizer, closure: Any = None) -> None:
        if closure is not None:
            raise user_error("closure", "given", "none: the engine steps once after backward")
        living = reference()
        if living is None:
            raise user_error("optimizer.step()", "after its engine ended", "an engine that lives")
        _unscale(self)
        living.step()

    # Said here as a scheduler would say it: the engine's step notes itself.
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    for function in (step, state_dict, load_state_dict, add_param_group):
        setattr(optimizer, function.__name__, types.MethodType(function, optimizer))
    # GradScaler then always calls step(), with its scale: whether a gradient is finite the engine
    # finds itself, for all ranks alike.
    optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]


def _unscale(optimizer: torch.optim.Optimizer) -> None:
    scale = getattr(optimizer, "grad_scale", None)
    if scale is None:
        return
    inverse = float(scale.double().reciprocal())
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.mul_(inverse)


def state_dict(self: torch.optim.Optimizer) -> None:
    raise user_error(
        "optimizer.state_dict()",
        "of an optimizer whose states are sharded",
        "saving the model alone, as checkpoints do not exist yet",
    )


def load_state_dict(self: torch.optim.Optimizer, state: Any) -> None:
    raise user_error(
        "optimizer.load_state_dict()",
        "after the engine was made",
        "none, as states cannot be loaded yet",
    )


def add_param_group(self: torch.optim.Optimizer, group: Any) -> None:
    raise user_error(
        "optimizer.add_param_group()",
        "after the engine was made",
        "all groups before: what trains is settled when the engine is made",
    )


def bind_model(model: nn.Module, engine: Engine) -> list[RemovableHandle]:
    """state_dict() of the model or of a part of it has whole values, in memory of its own."""
    values = _WholeValues(engine, model)
    return [module.register_state_dict_post_hook(values) for module in model.modules()]


class _WholeValues:
    """Of a module's own parameters; its children have a hook of their own."""

    def __init__(self, engine: Engine, model: nn.Module) -> None:
        self._engine = weakref.ref(engine)
        self._managed = {id(parameter) for parameter in model.parameters()}
        # Of one call, whose modules all write into one state: parameters that are tied stay one
        # tensor.
        self._copies: weakref.WeakValueDictionary[int, torch.Tensor] = (
            weakref.WeakValueDictionary()
        )
        self._state: Callable[[], Any] = lambda: None

    def __call__(self, module: nn.Module, state: dict, prefix: str, metadata: Any) -> None:
        engine = self._engine()
        if engine is None:
            return
        if self._state() is not state:
            self._copies.clear()
            self._state = _reference(state)
        for name, parameter in module._parameters.items():
            found = state.get(prefix + name)
            # With keep_vars the parameter itself is asked for.
            if found is None or found is parameter or id(parameter) not in self._managed:
                continue
            copy = self._copies.get(id(parameter))
            if copy is None:
                copy = parameter.detach().clone()
                self._copies[id(parameter)] = copy
            state[prefix + name] = copy

    # Of a copy of the model nothing is sharded.
    def __deepcopy__(self, memo: Any) -> _PlainValues:
        return _PlainValues()

    def __reduce__(self) -> Any:
        return _PlainValues, ()


def _reference(state: dict) -> Callable[[], Any]:
    """A plain dict, which only a caller's `destination` is, has none: it is a new one each time."""
    try:
        return weakref.ref(state)
    except TypeError:
        return lambda: None


class _PlainValues:
    _from_public_api = True

    def __call__(self, module: nn.Module, state: dict, prefix: str, metadata: Any) -> None:
        pass
