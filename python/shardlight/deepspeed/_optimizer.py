"""The optimizer and the scheduler of a config, or those that the script gave."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from shardlight._errors import user_error
from shardlight.deepspeed._auto import Sources, resolve_params
from shardlight.deepspeed.config import Config
from shardlight.deepspeed.lr_schedules import SCHEDULES

_WHOLE = "an optimizer that steps each element by itself; this one needs whole tensors"
_REFUSED = {
    "lion": "torch.optim has none; give a class of your own as `optimizer`",
    "lamb": _WHOLE,
    "muon": _WHOLE,
    "muadam": "give mup's class as `optimizer`",
    "muadamw": "give mup's class as `optimizer`",
    "musgd": "give mup's class as `optimizer`",
    "onebitadam": "DeepSpeed 0.19 has removed it",
    "onebitlamb": "DeepSpeed 0.19 has removed it",
    "zerooneadam": "DeepSpeed 0.19 has removed it",
}
# What FusedAdam and DeepSpeedCPUAdam take and torch's have not: what each must be.
_ONLY = {
    "bias_correction": (True, "true: torch's Adam corrects its bias"),
    "fp32_optimizer_states": (True, "true: states are fp32"),
    "set_grad_none": (True, "true: .grad is empty after a step"),
}
Parameters = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | None


def optimizer_of(
    given: Optimizer | Callable[[Any], Optimizer] | None,
    model: nn.Module,
    parameters: Parameters,
    config: Config,
    sources: Sources,
) -> Optimizer:
    """The script's own, or the config's. Raises UserError by the config's path."""
    chosen = list(parameters) if parameters is not None else _trained(model)
    if isinstance(given, Optimizer):
        optimizer = given
    elif callable(given):
        optimizer = given(chosen)
    elif given is not None:
        allowed = "a torch.optim.Optimizer, or a callable"
        raise user_error("optimizer", type(given).__name__, allowed)
    elif "optimizer.type" not in config.given:
        raise user_error(
            "optimizer", "none", "one given to initialize(), or `optimizer.type` of the config"
        )
    else:
        return _without_empty(_from_config(chosen, config, sources))
    if "optimizer.type" in config.given:
        config.note("optimizer", "initialize() was given another one, which counts")
    return _without_empty(optimizer)


def _trained(model: nn.Module) -> list[torch.Tensor]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _without_empty(optimizer: Optimizer) -> Optimizer:
    optimizer.param_groups[:] = [group for group in optimizer.param_groups if group["params"]]
    return optimizer


def _from_config(parameters: list[Any], config: Config, sources: Sources) -> Optimizer:
    name, written = config.get("optimizer.type"), config.get("optimizer.params") or {}
    params = resolve_params("optimizer.params", _object("optimizer.params", written), sources, None)
    if "max_grad_norm" in params:
        raise user_error("optimizer.params.max_grad_norm", "given", "none: use gradient_clipping")
    cls = _adam(name, params) or _class_of(name)
    if "betas" in params:
        params["betas"] = tuple(params["betas"])
    return _made("optimizer.params", cls, parameters, params)


def _adam(name: str, params: dict[str, Any]) -> type[Optimizer] | None:
    """Takes DeepSpeed's own arguments out of `params`."""
    if name.lower() not in ("adam", "adamw"):
        return None
    for only, (must, allowed) in _ONLY.items():
        if params.pop(only, must) is not must:
            raise user_error(f"optimizer.params.{only}", "false", allowed)
    by_torch = params.pop("torch_adam", False)
    decoupled = params.pop("adam_w_mode", True) or name.lower() == "adamw"
    if not by_torch:
        params.setdefault("weight_decay", 0.0)
    return torch.optim.AdamW if decoupled else torch.optim.Adam


def _class_of(name: str) -> type[Optimizer]:
    if name.lower() in _REFUSED:
        raise user_error("optimizer.type", name, _REFUSED[name.lower()])
    known = {
        key: cls for key, cls in vars(torch.optim).items()
        if inspect.isclass(cls) and issubclass(cls, Optimizer) and cls is not Optimizer
    }  # fmt: skip
    wanted = "Adagrad" if name.lower() == "adagrad" else name
    if wanted not in known:
        raise user_error("optimizer.type", name, _meant(wanted, known) + "a class of torch.optim")
    return known[wanted]


def scheduler_of(given: Any, optimizer: Optimizer, config: Config, sources: Sources) -> Any:
    """The script's own, or the config's, or None. Raises UserError by the config's path."""
    name = config.get("scheduler.type")
    if given is not None:
        if name is not None:
            config.note("scheduler", "initialize() was given another one, which counts")
        made = isinstance(given, torch.optim.lr_scheduler.LRScheduler) or hasattr(given, "step")
        return given if made and not inspect.isclass(given) else given(optimizer)
    if name is None:
        return None
    known: dict[str, Any] = {
        key: cls for key, cls in vars(torch.optim.lr_scheduler).items()
        if inspect.isclass(cls) and issubclass(cls, torch.optim.lr_scheduler.LRScheduler)
    } | SCHEDULES  # fmt: skip
    if name not in known:
        raise user_error(
            "scheduler.type", name,
            f"{_meant(name, known)}one of {', '.join(SCHEDULES)}, or of torch.optim.lr_scheduler",
        )  # fmt: skip
    path = "scheduler.params"
    params = _object(path, config.get(path) or {})
    lr = optimizer.param_groups[0]["lr"]
    return _made(path, known[name], optimizer, resolve_params(path, params, sources, lr))


def _made(path: str, cls: Any, over: Any, params: dict[str, Any]) -> Any:
    """cls(over, **params), with errors by path."""
    known = list(inspect.signature(cls.__init__).parameters)[2:]
    for name in params:
        if name not in known:
            names = ", ".join(known)
            raise user_error(f"{path}.{name}", "given", f"{_meant(name, known)}one of: {names}")
    try:
        return cls(over, **params)
    except (TypeError, ValueError) as error:
        raise user_error(path, repr(params), f"what {cls.__name__} takes: {error}") from error


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}? " if near else ""


def _object(path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise user_error(path, repr(value), "an object of arguments")
    return value
