"""Accelerate's Accelerator, whose model is trained by an engine instead of DistributedDataParallel.

    accelerator = shardlight.accelerate.Accelerator(stage=3, gradient_accumulation_steps=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

The loop stays as it was. docs/python.md says what is refused.
"""

from __future__ import annotations

from typing import Any

import accelerate
import torch
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.utils import (
    AutocastKwargs,
    DDPCommunicationHookType,
    DistributedType,
    DynamoBackend,
)
from torch import nn

from shardlight._errors import user_error
from shardlight._options import Choices
from shardlight.engine import Engine, StepReport

__all__ = ["Accelerator", "Optimizer", "split_choices"]

_OTHERS = (
    DistributedType.DEEPSPEED,
    DistributedType.FSDP,
    DistributedType.MEGATRON_LM,
    DistributedType.XLA,
)


def split_choices(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of `shardlight.Choices`, and the others."""
    known = Choices.__annotations__
    choices = {name: value for name, value in settings.items() if name in known}
    return choices, {name: value for name, value in settings.items() if name not in known}


class Optimizer(AcceleratedOptimizer):
    """What prepare() returns for an optimizer: its steps are the engine's."""

    engine: Engine | None = None
    report: StepReport | None = None  # of the last step

    def step(self, closure: Any = None) -> None:
        if closure is not None:
            raise user_error("closure", "given", "none: the engine steps once after backward")
        if not self.gradient_state.sync_gradients:
            return
        if self.engine is None:
            raise user_error("optimizer.step()", "without an engine", "accelerator.prepare() first")
        self.report = self.engine.step()
        # So that a prepared scheduler does not step where the engine did not.
        self._is_overflow = self.report.skipped


class Accelerator(accelerate.Accelerator):
    """accelerate.Accelerator with the choices of `shardlight.Choices` as further keywords; how
    many backward passes make a step is its own gradient_accumulation_steps.

    `engine` is there after prepare(model, optimizer, …), which takes both in one call.
    Raises UserError for what is not allowed.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._choices, others = split_choices(settings)
        if "accumulation" in self._choices:
            raise user_error("accumulation", "given", "Accelerator(gradient_accumulation_steps=…)")
        self.engine: Engine | None = None
        # Trainer divides losses and counts micro-steps by itself; then it says how many there are.
        self.accumulation: int | None = None
        self._micro_steps = 0
        super().__init__(*arguments, **others)
        self._check()
        if self.autocast_handler is None:
            # Autocast would keep a copy of each weight until forward ends.
            self.autocast_handler = AutocastKwargs(cache_enabled=False)

    def _check(self) -> None:
        if self.distributed_type in _OTHERS:
            kind = self.distributed_type.value
            raise user_error("distributed_type", kind, "no plugin: the engine shards the model")
        if self.mixed_precision not in ("no", "bf16"):
            raise user_error(
                "mixed_precision",
                self.mixed_precision,
                "no, bf16, or a model of dtype=torch.float16, whose loss scale the engine keeps",
            )
        if self.state.dynamo_plugin.backend != DynamoBackend.NO:
            backend = self.state.dynamo_plugin.backend.value
            raise user_error("dynamo_backend", backend, "no: the engine sees operators")
        hook = getattr(self.ddp_handler, "comm_hook", DDPCommunicationHookType.NO)
        if hook != DDPCommunicationHookType.NO:
            allowed = "no: the engine reduces gradients, with grad_dtype='compute' in 16 bits"
            raise user_error("comm_hook", hook.value, allowed)
        if self.parallelism_config is not None:
            raise user_error("parallelism_config", "given", "none: all ranks are data parallel")

    def prepare(self, *args: Any, device_placement: list[bool] | None = None) -> Any:
        """As accelerate's. A model alone stays as it is on each rank, as for evaluation."""
        models = [item for item in args if isinstance(item, nn.Module)]
        stepped = [item for item in args if isinstance(item, torch.optim.Optimizer)]
        if stepped and (len(models), len(stepped)) != (1, 1):
            raise user_error(
                "prepare()",
                f"of {len(models)} models and {len(stepped)} optimizers",
                "one of each in one call",
            )
        if stepped and self.engine is not None and self.engine.model is not models[0]:
            raise user_error("prepare()", "of a second model to train", "an Accelerator for each")
        result = super().prepare(*args, device_placement=device_placement)
        if stepped and self.engine is None:
            items = result if isinstance(result, tuple) else (result,)
            optimizer = next(item for item in items if isinstance(item, Optimizer))
            steps = self.accumulation or self.gradient_accumulation_steps
            self.engine = Engine(
                models[0], optimizer.optimizer, accumulation=steps, **self._choices
            )
            optimizer.engine = self.engine
        return result

    def prepare_model(
        self,
        model: nn.Module,
        device_placement: bool | None = None,
        evaluation_mode: bool = False,
    ) -> nn.Module:
        """Its device and autocast; the model is never wrapped."""
        return super().prepare_model(model, device_placement, evaluation_mode=True)

    def prepare_optimizer(
        self, optimizer: torch.optim.Optimizer, device_placement: bool | None = None
    ) -> Optimizer:
        if not isinstance(optimizer, Optimizer):
            placed = self.device_placement if device_placement is None else device_placement
            optimizer = Optimizer(optimizer, device_placement=placed)
        if not any(optimizer is item for item in self._optimizers):
            self._optimizers.append(optimizer)
        return optimizer

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        if self.engine is None:
            return super().backward(loss, **kwargs)
        if kwargs:
            raise user_error("backward()", f"with {', '.join(kwargs)}", "the loss alone")
        # The engine takes the mean over micro-steps, which who calls has done or means to be done.
        factor = self.engine.accumulation / self.gradient_accumulation_steps
        self.engine.backward(loss if factor == 1 else loss * factor)
        self._micro_steps += 1
        if self.sync_gradients:
            # The last step of an epoch may have fewer.
            self.engine.pass_micro_steps(self.engine.accumulation - self._micro_steps)
            self._micro_steps = 0

    def get_state_dict(self, model: nn.Module, unwrap: bool = True) -> dict[str, torch.Tensor]:
        """On all ranks."""
        if self.engine is not None and model is self.engine.model:
            return self.engine.state_dict()
        return super().get_state_dict(model, unwrap)

    def save_state(self, *args: Any, **kwargs: Any) -> str:
        raise user_error("save_state()", "called", "save_model(): states cannot be saved yet")

    def load_state(self, *args: Any, **kwargs: Any) -> None:
        raise user_error("load_state()", "called", "nothing: states cannot be loaded yet")
