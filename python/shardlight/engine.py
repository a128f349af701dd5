"""The engine of a model in Python: what a training loop calls, and what loops already call."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from typing_extensions import Unpack

from shardlight import _engine, _optimizers
from shardlight._building import take_scope
from shardlight._errors import user_error
from shardlight._habits import bind_model, bind_optimizer
from shardlight._options import Choices, check_names, options_of
from shardlight._ranks import ends_of_engines, ranks_of
from shardlight.reports import (
    MemoryReport,
    PlanReport,
    TrafficReport,
    memory_report,
    plan_report,
    traffic_report,
)

_OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True)
class StepReport:
    step: int  # from 1 on
    gradient_norm: float  # of the mean gradient, before clipping
    skipped: bool  # a gradient was not finite, on some rank: no rank stepped
    loss_scale: float  # that the step's losses had


class Engine:
    """Trains `model` with ZeRO on the ranks that torchrun or `shardlight launch` started.

    `optimizer`: an element-wise optimizer of torch.optim, or of your own, over the model's
    parameters; its groups are honoured in each step, so LR schedulers work on it. Or the name
    "adamw", "adam" or "sgd", with torch's defaults and `lr`.
    `elementwise`: your word for it that the optimizer's class steps each element by itself.
    All other choices, with `stage` first of all, are those of `shardlight.Choices`.
    Raises UserError for what is not allowed. docs/python.md.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | str = "adamw",
        *,
        lr: float | None = None,
        elementwise: bool = False,
        **choices: Unpack[Choices],
    ) -> None:
        if not isinstance(model, nn.Module):
            raise user_error("model", type(model).__name__, "a torch.nn.Module")
        check_names(dict(choices))
        self.model = model
        self.optimizer = _optimizer_of(optimizer, model, lr)
        named = list(model.named_parameters(remove_duplicate=False))
        if not named:
            raise user_error("model", f"{type(model).__name__} without parameters", "one that has")
        options = options_of(choices)
        options.ranks = ranks_of(
            choices.get("ranks", "auto"), named[0][1].device, options.deadline
        )
        self.stage, self.accumulation, self.steps = options.stage, options.accumulation, 0
        stepped = _optimizers.for_engine(self.optimizer, named, elementwise)
        scope = take_scope()  # after all that is checked here: it goes with the engine
        built = () if scope is None else (scope,)
        self._engine = _engine.Engine(*built, named, list(model.named_buffers()), stepped, options)
        self.rank, self.world = self._engine.rank, self._engine.world
        self._end = weakref.finalize(self, _end, self._engine, os.getpid())
        ends_of_engines[:] = [end for end in ends_of_engines if end.alive] + [self._end]
        bind_optimizer(self.optimizer, self)
        self._hooks = bind_model(model, self)

    def backward(self, loss: torch.Tensor) -> None:
        """`loss.backward()`, and raises at once what went wrong on the way."""
        self._engine.backward(loss)

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the loss scale, for a backward() of your own; the loss itself unless the
        model has fp16 parameters."""
        return self._engine.scaled(loss)

    def step(self) -> StepReport:
        """After as many backward passes as `accumulation` says, on all ranks. The optimizer's step
        hooks run around it."""
        for hook in self.optimizer._optimizer_step_pre_hooks.values():
            hook(self.optimizer, (), {})
        report = StepReport(**self._engine.step())
        for hook in self.optimizer._optimizer_step_post_hooks.values():
            hook(self.optimizer, (), {})
        self.steps = report.step
        # What LR schedulers look for, to warn of a scheduler that steps first.
        self.optimizer._opt_called = True
        return report

    def pass_micro_steps(self, count: int) -> None:
        """So many micro-steps of this rank without a gradient, as where data end within a step;
        none if `count` is not above 0."""
        for _ in range(count):
            self.backward(torch.zeros((), requires_grad=True))

    def join(self) -> int:
        """This rank has no more batches: takes part in the others' steps, with no gradient, until
        none has, and returns how many steps that were."""
        return self._engine.join()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in it are no micro-steps; their gradients are added to the next one's."""
        scope = self._engine.no_sync()
        try:
            yield
        finally:
            scope.end()

    @contextlib.contextmanager
    def gathered(
        self,
        parameters: nn.Module | torch.Tensor | Iterable[torch.Tensor] | None = None,
        *,
        write: bool = False,
    ) -> Iterator[None]:
        """In it the parameters (of a module; all, if None) have their whole values in memory.

        Changes by torch's operators are noticed, here as elsewhere; `write` is for others, as
        through numpy. They hold for all ranks from the next step() on, and must be alike on all.
        """
        scope = self._engine.gathered(self._parameters(parameters), write)
        try:
            yield
        finally:
            scope.end()

    def _parameters(self, chosen: Any) -> list[torch.Tensor]:
        if chosen is None:
            chosen = self.model
        if isinstance(chosen, nn.Module):
            return list(chosen.parameters())
        return [chosen] if isinstance(chosen, torch.Tensor) else list(chosen)

    def gradient(self, parameter: torch.Tensor) -> torch.Tensor:
        """A copy of its mean gradient; between the last backward and step(), on all ranks."""
        return self._engine.gradient(parameter)

    def optimizer_state(self, parameter: torch.Tensor, name: str) -> torch.Tensor:
        """A copy of an optimizer state of the whole parameter; on all ranks."""
        return self._engine.optimizer_state(parameter, name)

    def full_state(self) -> Iterator[tuple[str, Any]]:
        """The model's state, tensor by tensor, with no more than one unit in memory beside it; on
        all ranks, to the end. The names are those of model.state_dict()."""
        kept = self.model.state_dict(keep_vars=True)
        state = self._engine.full_state()
        while (item := state.next()) is not None:
            if kept.pop(item[0], None) is not None:
                yield item
        # Tensors without elements, and what modules give by get_extra_state().
        for name, value in kept.items():
            yield name, value.detach().clone() if isinstance(value, torch.Tensor) else value

    def state_dict(self) -> dict[str, Any]:
        """A copy of the model's whole state; on all ranks. full_state() needs less memory."""
        return dict(self.full_state())

    def memory(self) -> MemoryReport:
        return memory_report(self._engine.memory())

    def traffic(self) -> TrafficReport:
        return traffic_report(self._engine.traffic())

    def plan(self) -> PlanReport:
        """This model on these ranks at each stage, by the ledger. Needs no other rank."""
        return plan_report(self._engine.plan(), self.stage)

    def close(self) -> None:
        """Gives the model memory of its own with its values; all ranks together. What trains is an
        error afterwards."""
        self._unbind()
        if self._end.detach() is not None:
            self._engine.close()

    def _unbind(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
            return
        self._unbind()
        if self._end.detach() is not None:
            self._engine.leave()

    def __repr__(self) -> str:
        total = sum(p.numel() for p in self.model.parameters())
        return (
            f"shardlight.Engine({type(self.model).__name__} of {total:,} parameters, "
            f"{type(self.optimizer).__name__}, stage={self.stage}, rank {self.rank} of "
            f"{self.world})"
        )


def _optimizer_of(
    optimizer: torch.optim.Optimizer | str, model: nn.Module, lr: float | None
) -> torch.optim.Optimizer:
    if isinstance(optimizer, torch.optim.Optimizer):
        if lr is not None:
            raise user_error("lr", str(lr), "none beside an optimizer, which has its own")
        return optimizer
    if optimizer not in _OPTIMIZERS:
        allowed = ", ".join(_OPTIMIZERS)
        raise user_error("optimizer", str(optimizer), f"a torch.optim optimizer, or {allowed}")
    settings = {} if lr is None else {"lr": lr}
    trained = [p for p in model.parameters() if p.requires_grad]
    return _OPTIMIZERS[optimizer](trained, **settings)


def _end(engine: _engine.Engine, process: int) -> None:
    """Of an engine that nobody closed. After an uncaught exception it waits for nobody. A child of
    fork has none of its own to end."""
    if os.getpid() != process:
        return
    if getattr(sys, "last_value", None) is not None:
        engine.leave()
    else:
        engine.close()
