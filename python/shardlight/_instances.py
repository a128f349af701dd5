"""Another instance of the class of a user's optimizer, over other tensors."""

from __future__ import annotations

import copy
import inspect
import types
from typing import Any

import torch

from shardlight._errors import user_error

# What every instance has of its own, and what a GradScaler or an engine says to the user's.
_OWN = frozenset(vars(torch.optim.SGD([torch.zeros(1)]))) | {
    "_step_supports_amp_scaling",
    "grad_scale",
    "found_inf",
    "_opt_called",
}


def instance_of(
    outer: torch.optim.Optimizer, groups: list[dict[str, Any]]
) -> torch.optim.Optimizer:
    """Constructed, as some classes make states at once, and with the attributes that the user's
    instance has. Errors: an argument or an attribute that cannot be had from it."""
    inner = type(outer)(groups, **_arguments(outer, groups[0]))
    for name, value in vars(outer).items():
        if name in _OWN or _overrides(outer, name, value):
            continue
        if isinstance(value, types.MethodType) and value.__self__ is outer:
            setattr(inner, name, types.MethodType(value.__func__, inner))
        elif not _holds_tensor(value):
            setattr(inner, name, copy.deepcopy(value))
        elif name not in vars(inner):
            raise user_error(
                "optimizer",
                f"{type(outer).__name__} with the attribute {name}, which holds tensors",
                "attributes without tensors, or made by __init__: a rank steps other tensors",
            )
    return inner


def _arguments(outer: torch.optim.Optimizer, group: dict[str, Any]) -> dict[str, Any]:
    """Of __init__, beside the parameters: each from the defaults, the groups, or an attribute of
    its name. What is nowhere is as __init__ has it; it may only say how attributes are made."""
    given: dict[str, Any] = {}
    attributes = vars(outer)
    # The instance itself and the parameters come first.
    for parameter in list(inspect.signature(type(outer).__init__).parameters.values())[2:]:
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in outer.defaults:
            given[name] = outer.defaults[name]
        elif name in group:
            given[name] = group[name]
        elif name in attributes or f"_{name}" in attributes:
            given[name] = attributes.get(name, attributes.get(f"_{name}"))
        elif parameter.default is parameter.empty:
            raise user_error(
                "optimizer",
                f"{type(outer).__name__} without its argument {name} in groups or attributes",
                f"a class whose defaults, groups or attribute {name} keep what it was given",
            )
    if given.get("fused", False) is None:  # the groups' is chosen already
        given["fused"] = group.get("fused")
    return given


def _overrides(outer: torch.optim.Optimizer, name: str, value: Any) -> bool:
    """As an LR scheduler's step(), which calls the user's own instance."""
    return callable(value) and callable(getattr(type(outer), name, None))


def _holds_tensor(value: Any) -> bool:
    seen: set[int] = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)):
            return True
        if id(one) in seen or isinstance(one, (type, types.ModuleType, types.FunctionType)):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            left += one
        elif isinstance(one, types.MethodType):
            left.append(one.__self__)
        else:
            left += getattr(one, "__dict__", {}).values()
    return False
