"""The engine as DeepSpeed's users call it, around a shardlight.Engine."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from shardlight._errors import UserError, user_error
from shardlight.deepspeed import comm, zero
from shardlight.deepspeed._choices import dtype_of
from shardlight.deepspeed._log import LOGGER, tell
from shardlight.deepspeed.config import Config
from shardlight.engine import Engine, StepReport


class DeepSpeedEngine:
    """`engine(x)`, `engine.backward(loss)` and `engine.step()`, once each for a micro-batch.

    Made by initialize(). What is not here is looked up in the module, then it is an AttributeError.
    `shardlight_engine` is what trains; `config_notes` says what is not as in DeepSpeed.
    """

    def __init__(
        self, engine: Engine, config: Config, lr_scheduler: Any, collate_fn: Any = None
    ) -> None:
        self.shardlight_engine = engine
        self.module: nn.Module = engine.model
        self.optimizer = engine.optimizer
        self.lr_scheduler = lr_scheduler
        self.training_dataloader: DataLoader[Any] | None = None
        self.collate_fn = collate_fn
        self.config_notes = list(config.notes)
        self.local_rank, self.global_rank = comm.get_local_rank(), engine.rank
        self.world_size = self.dp_world_size = engine.world
        self.device = next(self.module.parameters()).device
        self.global_steps = self.global_samples = self.micro_steps = self.skipped_steps = 0
        self._config = config
        self._report: StepReport | None = None
        self._boundary: bool | None = None  # by whom calls; None: counted here
        self._passes = 0  # backward passes since the last step, those of no_sync() left out
        self._in_no_sync = False
        self._times = dict.fromkeys(("forward", "backward", "step"), 0.0)
        zero.enter(engine)

    # Training.

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._config.get("fp16.auto_cast") and self.fp16_enabled():
            inputs, kwargs = _half(inputs), _half(kwargs)
        with self._timed("forward"):
            return self.module(*inputs, **kwargs)

    forward = __call__

    def backward(
        self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True
    ) -> torch.Tensor:
        """Returns the loss divided by gradient_accumulation_steps, as DeepSpeed does; gradients are
        a mean over the micro-batches, or with `scale_wrt_gas=False` a sum."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            shown = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise user_error("loss", str(shown), "a tensor of one element")
        steps = self.gradient_accumulation_steps()
        # A pass before a boundary that the caller sets, with no micro-step left but the boundary's.
        # Within no_sync() it is uncounted already.
        early = (
            not self._in_no_sync and self._boundary is False and self._passes >= steps - 1
        )
        scope = self.shardlight_engine.no_sync() if early else contextlib.nullcontext()
        with self._timed("backward"), scope:
            self._backward(loss if scale_wrt_gas else loss * steps, retain_graph)
        if not early and not self._in_no_sync:
            self._passes += 1
        return loss.detach() / steps if scale_wrt_gas else loss.detach()

    def _backward(self, loss: torch.Tensor, retain_graph: bool) -> None:
        if retain_graph:
            self.shardlight_engine.scaled(loss).backward(retain_graph=True)
        else:
            self.shardlight_engine.backward(loss)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """For a backward() of your own: the loss times the loss scale, if there is one."""
        return self.shardlight_engine.scaled(loss)

    def step(self, lr_kwargs: dict[str, Any] | None = None) -> None:
        """Ends a micro-batch; at the boundary of accumulation optimizer and scheduler step."""
        if self._in_no_sync:
            raise user_error("step()", "within no_sync()", "after it")
        if self.is_gradient_accumulation_boundary():
            self._take_step(lr_kwargs)
        self.micro_steps += 1

    def _take_step(self, lr_kwargs: dict[str, Any] | None) -> None:
        if self._boundary is not None and self._passes > 0:
            # The caller ended early, as at the end of data: micro-steps without a gradient.
            missing = self.gradient_accumulation_steps() - self._passes
            self.shardlight_engine.pass_micro_steps(missing)
        with self._timed("step"):
            self._report = self.shardlight_engine.step()
        self._passes = 0
        if self._report.skipped:
            self.skipped_steps += 1
        elif self.lr_scheduler is not None:
            self.lr_scheduler.step(**(lr_kwargs or {}))
        self.global_steps += 1
        self.global_samples += self.train_batch_size()
        self._tell()

    def is_gradient_accumulation_boundary(self) -> bool:
        """Whether the step() that comes next lets the optimizer step."""
        if self._boundary is not None:
            return self._boundary
        return (self.micro_steps + 1) % self.gradient_accumulation_steps() == 0

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        """From now on the caller says so, before each backward pass, and calls step() after the
        boundary's. Gradients are divided by gradient_accumulation_steps, however many passes."""
        self._boundary = bool(is_boundary)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in it are added to the next one's. Within another one it changes
        nothing."""
        if self._in_no_sync:
            yield
            return
        self._in_no_sync = True
        try:
            with self.shardlight_engine.no_sync():
                yield
        finally:
            self._in_no_sync = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: .grad is empty after each step."""

    def train(self, mode: bool = True) -> DeepSpeedEngine:
        self.module.train(mode)
        return self

    def eval(self) -> DeepSpeedEngine:
        return self.train(False)

    # What it is, and what it did.

    def train_batch_size(self) -> int:
        return self._config.batch.train

    def train_micro_batch_size_per_gpu(self) -> int:
        return self._config.batch.micro

    def gradient_accumulation_steps(self) -> int:
        return self._config.batch.accumulation

    def get_batch_info(self) -> tuple[int, int, int]:
        batch = self._config.batch
        return batch.train, batch.micro, batch.accumulation

    def zero_optimization_stage(self) -> int:
        return self.shardlight_engine.stage

    def zero_optimization(self) -> bool:
        return self.shardlight_engine.stage > 0

    def zero_optimization_partition_gradients(self) -> bool:
        return self.shardlight_engine.stage >= 2

    def zero_optimization_partition_weights(self) -> bool:
        return self.shardlight_engine.stage == 3

    def fp16_enabled(self) -> bool:
        return dtype_of(self._config) is torch.float16

    def bfloat16_enabled(self) -> bool:
        return dtype_of(self._config) is torch.bfloat16

    def gradient_clipping(self) -> float:
        return self._config.get("gradient_clipping")

    def steps_per_print(self) -> Any:
        return self._config.get("steps_per_print")

    def wall_clock_breakdown(self) -> bool:
        return self._config.get("wall_clock_breakdown")

    def get_global_grad_norm(self) -> float | None:
        """Of the mean gradient of the last step, before clipping; None before the first."""
        return None if self._report is None else self._report.gradient_norm

    def was_step_applied(self) -> bool:
        """Whether the last step() changed parameters: it was no skipped one."""
        return self._report is not None and not self._report.skipped

    def get_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_mom(self) -> list[Any]:
        groups = self.optimizer.param_groups
        return [group.get("betas", group.get("momentum", 0.0)) for group in groups]

    def _tell(self) -> None:
        if self.global_rank != 0:
            return
        every = self.steps_per_print()
        if every is not None and self.global_steps % every == 0:
            tell(
                f"step {self.global_steps}: skipped {self.skipped_steps}, lr {self.get_lr()}, "
                f"momentum {self.get_mom()}"
            )
        if self.wall_clock_breakdown():
            shown = (f"{name} {1e3 * took:.2f} ms" for name, took in self._times.items())
            tell(f"step {self.global_steps}: " + ", ".join(shown))
            self._times = dict.fromkeys(self._times, 0.0)
        if self._config.get("memory_breakdown") and LOGGER.isEnabledFor(logging.INFO):
            tell(f"step {self.global_steps}: {self.shardlight_engine.memory()}")

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._times[what] += time.perf_counter() - began

    # Data and files.

    def deepspeed_io(
        self,
        dataset: Any,
        batch_size: int | None = None,
        data_sampler: Any = None,
        collate_fn: Any = None,
        num_local_io_workers: int = 0,
        pin_memory: bool = False,
        route: str = "train",
    ) -> DataLoader[Any]:
        """A loader of this rank's micro-batches, shuffled for `route` "train"."""
        if data_sampler is None and not isinstance(dataset, IterableDataset):
            data_sampler = DistributedSampler(
                dataset, self.world_size, self.global_rank, shuffle=route == "train"
            )
        return DataLoader(
            dataset,
            batch_size or self.train_micro_batch_size_per_gpu(),
            sampler=data_sampler,
            collate_fn=collate_fn or self.collate_fn,
            num_workers=num_local_io_workers,
            pin_memory=pin_memory,
            drop_last=self._config.get("dataloader_drop_last"),
        )

    def module_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, Any]:
        """A copy of the whole state, on all ranks; all ranks call it."""
        state = self.shardlight_engine.state_dict()
        left_out = self._frozen() if exclude_frozen_parameters else ()
        return {name: tensor for name, tensor in state.items() if name not in left_out}

    def _frozen(self) -> set[str]:
        """All names, also the further ones of tied parameters."""
        named = self.module.named_parameters(remove_duplicate=False)
        return {name for name, parameter in named if not parameter.requires_grad}

    state_dict = module_state_dict

    def save_16bit_model(
        self,
        save_dir: str | os.PathLike[str],
        save_filename: str = "pytorch_model.bin",
        exclude_frozen_parameters: bool = False,
    ) -> bool:
        """Rank 0 writes the module's state, in its dtypes, by torch.save; all ranks call it."""
        left_out = self._frozen() if exclude_frozen_parameters else ()
        kept: dict[str, torch.Tensor] = {}
        for name, tensor in self.shardlight_engine.full_state():
            if self.global_rank == 0 and name not in left_out:
                kept[name] = tensor
        if self.global_rank == 0:
            path = Path(save_dir, save_filename)
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(path.name + ".part")
            torch.save(kept, part)
            part.replace(path)
        return True

    save_fp16_model = save_16bit_model

    def save_checkpoint(self, *ignored: Any, **also: Any) -> None:
        raise _no_checkpoints("save_checkpoint()")

    def load_checkpoint(self, *ignored: Any, **also: Any) -> None:
        raise _no_checkpoints("load_checkpoint()")

    def set_train_batch_size(self, train_batch_size: int) -> None:
        raise _settled("set_train_batch_size()", train_batch_size)

    def set_train_micro_batch_size(self, micro_batch_size: int) -> None:
        raise _settled("set_train_micro_batch_size()", micro_batch_size)

    def destroy(self) -> None:
        """Gives the module memory of its own with its values; all ranks together."""
        zero.leave(self.shardlight_engine)
        self.shardlight_engine.close()

    def __getattr__(self, name: str) -> Any:
        # Only what is not found otherwise; "module" itself while nothing is set yet.
        if name != "module" and not name.startswith("__") and hasattr(self.module, name):
            return getattr(self.module, name)
        raise AttributeError(
            f"{name}: neither shardlight's DeepSpeedEngine nor its module has it; "
            "docs/deepspeed.md has what is there, and .shardlight_engine does more"
        )

    def __repr__(self) -> str:
        return f"DeepSpeedEngine({self.shardlight_engine!r})"


def _half(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.half() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _half(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        halves = [_half(inner) for inner in value]
        named = hasattr(value, "_fields")
        return type(value)(*halves) if named else type(value)(halves)
    return value


def _no_checkpoints(call: str) -> UserError:
    return user_error(
        call, "called", "save_16bit_model() or module_state_dict(): there are no checkpoints yet"
    )


def _settled(call: str, value: int) -> UserError:
    return user_error(call, str(value), "none: batch sizes are settled when the engine is made")
