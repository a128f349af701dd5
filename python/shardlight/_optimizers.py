"""A torch.optim optimizer as the engine steps it: an instance of its class over this rank's parts.

The user's optimizer keeps what users and LR schedulers set: its groups and their
hyper-parameters, which each step reads. What it steps, and the states, are the other instance's.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from shardlight._engine import PythonOptimizer
from shardlight._errors import user_error
from shardlight._instances import instance_of

# They step each element from its own value, gradient and state. Others are tried out by the engine.
_ELEMENTWISE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adagrad,
    torch.optim.RMSprop,
    torch.optim.Adadelta,
    torch.optim.Adamax,
    torch.optim.ASGD,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.Rprop,
)
_TRIAL_LR = 0.01  # a warm-up's first one is 0, by which nothing steps
# Of `fused=None`, which leaves the choice to torch, this is the fastest on every device.
_FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


def _copied(value: Any) -> Any:
    """So that a change in place is one, and of one of the two alone."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return copy.deepcopy(value) if isinstance(value, (list, set, tuple)) else value


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        both = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        return both and a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
    try:
        return bool(type(a) is type(b) and a == b)
    except (RuntimeError, ValueError):  # of what holds tensors or arrays
        return False


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


def settings_text(optimizer: torch.optim.Optimizer) -> str:
    """All hyper-parameters of all groups, so that ranks can compare them."""
    groups = [
        sorted((key, repr(_plain(value))) for key, value in group.items() if key != "params")
        for group in optimizer.param_groups
    ]
    return repr(groups)


def groups_by_name(
    optimizer: torch.optim.Optimizer, named: Sequence[tuple[str, torch.Tensor]]
) -> dict[str, int]:
    """The group of each parameter that has one, by each of its names."""
    group_of = {
        id(parameter): index
        for index, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    }
    known = {id(parameter) for _, parameter in named}
    for index, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in known:
                raise user_error(
                    "optimizer",
                    f"group {index} with a tensor of shape {tuple(parameter.shape)}",
                    "parameters of the model, the very tensors: made from model.parameters()",
                )
    for name, parameter in named:
        if parameter.requires_grad and id(parameter) not in group_of:
            raise user_error(
                "optimizer",
                f"without the parameter {name}, which requires a gradient",
                "every parameter that trains in some group; freeze the others by "
                "requires_grad_(False)",
            )
    return {name: group_of[id(p)] for name, p in named if id(p) in group_of}


class Stepper:
    """Steps segments, each a part of the parameter of that name, by a new instance."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        group_of: dict[str, int],
        names: Sequence[str],
        values: Sequence[torch.Tensor],
    ) -> None:
        # In a trial names are empty, and settings the first group's.
        self._trial = not any(names)
        members: list[list[torch.Tensor]] = [[] for _ in optimizer.param_groups]
        for name, value in zip(names, values, strict=True):
            members[0 if self._trial else group_of[name]].append(value)
        self._outer = optimizer
        self._used = [index for index, some in enumerate(members) if some]
        # A class may keep states in its groups: only what the user changes goes on to them.
        self._passed = [_copied(self._settings(index)) for index in self._used]
        self._inner: torch.optim.Optimizer | None = None
        if self._used:
            self._inner = self._construct(members)
        self.divides = bool(getattr(self._inner, "_step_supports_amp_scaling", False))

    def _settings(self, index: int) -> dict[str, Any]:
        group = self._outer.param_groups[index]
        settings = {key: v for key, v in group.items() if key not in ("params", "param_names")}
        if self._trial and "lr" in settings:
            settings["lr"] = _TRIAL_LR
        if type(self._outer) in _FUSED and settings.get("fused", False) is None:
            settings["fused"] = not (settings.get("foreach") or settings.get("differentiable"))
        return settings

    def _construct(self, members: list[list[torch.Tensor]]) -> torch.optim.Optimizer:
        groups = [
            {"params": members[index], **_copied(self._settings(index))} for index in self._used
        ]
        return instance_of(self._outer, groups)

    def settings_hash(self) -> int:
        """Of the settings that the next step uses."""
        text = settings_text(self._outer).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")

    def step(self, divisor: float | None) -> None:
        """Gradients are in .grad, to be divided by `divisor` first where there is one."""
        if self._inner is None:
            return
        self._pass_on_settings(self._inner)
        if self.divides:
            self._inner.grad_scale = None if divisor is None else torch.tensor(float(divisor))
            self._inner.found_inf = None
        self._inner.step()

    def _pass_on_settings(self, inner: torch.optim.Optimizer) -> None:
        for i, (index, group) in enumerate(zip(self._used, inner.param_groups, strict=True)):
            settings, passed = self._settings(index), self._passed[i]
            changed = {
                key: value
                for key, value in settings.items()
                if key not in passed or not _same(value, passed[key])
            }
            group.update(_copied(changed))
            passed.update(_copied(changed))


def for_engine(
    optimizer: torch.optim.Optimizer,
    named: Sequence[tuple[str, torch.Tensor]],
    elementwise: bool,
) -> PythonOptimizer:
    """What the engine is given. Errors: parameters that are not the model's, or are missing."""
    if any(_stepped(state) for state in optimizer.state.values()):
        raise user_error(
            "optimizer",
            f"{type(optimizer).__name__} with states of steps it has taken",
            "one that has not stepped yet",
        )
    group_of = groups_by_name(optimizer, named)
    # Some classes make states at once, of whole parameters.
    optimizer.state.clear()
    return PythonOptimizer(
        type(optimizer).__name__,
        settings_text(optimizer),
        elementwise or type(optimizer) in _ELEMENTWISE,
        lambda names, values: Stepper(optimizer, group_of, names, values),
    )


def _stepped(state: Any) -> bool:
    if not isinstance(state, dict) or not state:
        return False
    step = state.get("step", 1)
    return float(step) > 0
