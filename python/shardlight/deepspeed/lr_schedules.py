"""The LR schedules of DeepSpeed 0.19 by its formulas (deepspeed/runtime/lr_schedules.py), bit for
bit: the first lr is set when a schedule is made, the next ones by step() after each optimizer's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from shardlight._errors import user_error
from shardlight.deepspeed._log import warn

PerGroup = float | Sequence[float]


class _Schedule:
    """Counts steps from -1, which is before the first."""

    def __init__(self, optimizer: Optimizer, last_batch_iteration: int) -> None:
        self.optimizer = optimizer
        self.last_batch_iteration = last_batch_iteration
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """Of each group, at the step that is counted now."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    def step(self, last_batch_iteration: int | None = None) -> None:
        if last_batch_iteration is None:
            last_batch_iteration = self.last_batch_iteration + 1
        self.last_batch_iteration = last_batch_iteration
        self._set(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last_batch_iteration = state["last_batch_iteration"]

    def _start(self, lrs: list[float]) -> None:
        if self.last_batch_iteration == -1:
            self._set(lrs)

    def _set(self, lrs: Sequence[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _per_group(self, name: str, value: PerGroup) -> list[float]:
        groups = len(self.optimizer.param_groups)
        if not isinstance(value, (list, tuple)):
            return [value] * groups
        if len(value) != groups:
            raise user_error(name, repr(value), f"one number, or {groups}, one for each group")
        return list(value)


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise user_error(name, repr(value), "a whole number from 1 on")
    return value


class LRRangeTest(_Schedule):
    """Raises the lr step by step, to find where training diverges (arXiv 1803.09820)."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_range_test_min_lr: PerGroup = 1e-3,
        lr_range_test_step_size: int = 2000,
        lr_range_test_step_rate: float = 1.0,
        lr_range_test_staircase: bool = False,
        last_batch_iteration: int = -1,
    ) -> None:
        super().__init__(optimizer, last_batch_iteration)
        self.min_lr = self._per_group("lr_range_test_min_lr", lr_range_test_min_lr)
        self.step_size = _positive("lr_range_test_step_size", lr_range_test_step_size)
        self.step_rate = lr_range_test_step_rate
        self.staircase = lr_range_test_staircase
        self._start(self.min_lr)

    def get_lr(self) -> list[float]:
        interval: float = float(self.last_batch_iteration + 1) / self.step_size
        if self.staircase:
            interval = math.floor(interval)
        increase = 1 + self.step_rate * interval
        return [lr * increase for lr in self.min_lr]


class _Warmup(_Schedule):
    """The factor of the warm-up: from 0 to 1, by the logarithm of the step or linearly."""

    def __init__(
        self, optimizer: Optimizer, warmup_num_steps: int, warmup_type: str, last: int
    ) -> None:
        super().__init__(optimizer, last)
        if warmup_type not in ("log", "linear"):
            raise user_error("warmup_type", repr(warmup_type), "log or linear")
        self.warmup_type = warmup_type
        self.warmup_num_steps = max(2, _positive("warmup_num_steps", warmup_num_steps))
        self._inverse_log = 1.0 / math.log(self.warmup_num_steps)

    @property
    def _warming(self) -> bool:
        return self.last_batch_iteration < self.warmup_num_steps

    def _warmth(self) -> float:
        if self.warmup_type == "log":
            return self._inverse_log * math.log(self.last_batch_iteration + 1)
        return self.last_batch_iteration / self.warmup_num_steps

    def _check_total(self, total: int) -> int:
        if total < self.warmup_num_steps:
            warn(f"total_num_steps {total} is less than warmup_num_steps {self.warmup_num_steps}")
        return total


class WarmupLR(_Warmup):
    """From the least lr to the most, and then stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        warmup_min_lr: PerGroup = 0.0,
        warmup_max_lr: PerGroup | None = None,
        warmup_num_steps: int = 1000,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        super().__init__(optimizer, warmup_num_steps, warmup_type, last_batch_iteration)
        if warmup_max_lr is None:
            warmup_max_lr = [group["lr"] for group in optimizer.param_groups]
        self.min_lrs = self._per_group("warmup_min_lr", warmup_min_lr)
        self.max_lrs = self._per_group("warmup_max_lr", warmup_max_lr)
        self._start(self.min_lrs)

    def get_lr(self) -> list[float]:
        if self.last_batch_iteration < 0:
            return self.min_lrs
        gamma = self._gamma()
        return [low + (high - low) * gamma for low, high in zip(self.min_lrs, self.max_lrs)]

    def _gamma(self) -> float:
        return self._warmth() if self._warming else 1.0


class WarmupDecayLR(WarmupLR):
    """Warm-up, then linearly down to the least lr at the last step."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_num_steps: int,
        warmup_min_lr: PerGroup = 0.0,
        warmup_max_lr: PerGroup = 0.001,
        warmup_num_steps: int = 1000,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        super().__init__(
            optimizer, warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type,
            last_batch_iteration,
        )  # fmt: skip
        self.total_num_steps = self._check_total(total_num_steps)

    def _gamma(self) -> float:
        if self._warming:
            return self._warmth()
        left = float(self.total_num_steps - self.last_batch_iteration)
        return max(0.0, left / float(max(1.0, self.total_num_steps - self.warmup_num_steps)))


class WarmupCosineLR(_Warmup):
    """A ratio of each group's own lr: warm-up, then down by half a cosine to `cos_min_ratio`."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_num_steps: int,
        warmup_min_ratio: float = 0.0,
        warmup_num_steps: int = 1000,
        cos_min_ratio: float = 0.0001,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        super().__init__(optimizer, warmup_num_steps, warmup_type, last_batch_iteration)
        self.total_num_steps = self._check_total(total_num_steps)
        self.warmup_min_ratio, self.cos_min_ratio = warmup_min_ratio, cos_min_ratio
        # A tensor is the very object that will be set.
        self.org_lrs = [
            lr.clone() if isinstance(lr, torch.Tensor) else lr for lr in self._last_lr
        ]  # fmt: skip
        self._start(self.get_lr())

    def get_lr_ratio(self) -> float:
        if self.last_batch_iteration < 0:
            return 0.0
        if self._warming:
            return self.warmup_min_ratio + self._warmth() * (1.0 - self.warmup_min_ratio)
        step = self.last_batch_iteration - self.warmup_num_steps + 1
        progress = min(1.0, step / max(1, self.total_num_steps - self.warmup_num_steps))
        cosine = (1 + math.cos(math.pi * progress)) / 2
        return max(0.0, self.cos_min_ratio + (1.0 - self.cos_min_ratio) * cosine)

    def get_lr(self) -> list[float]:
        ratio = self.get_lr_ratio()
        return [lr * ratio for lr in self.org_lrs]


class OneCycle(_Schedule):
    """Up and down once, momentum the other way, then decay (arXiv 1803.09820)."""

    def __init__(
        self,
        optimizer: Optimizer,
        cycle_min_lr: PerGroup,
        cycle_max_lr: PerGroup,
        decay_lr_rate: float = 0.0,
        cycle_first_step_size: float = 2000,
        cycle_second_step_size: float | None = None,
        cycle_first_stair_count: int = 0,
        cycle_second_stair_count: int | None = None,
        decay_step_size: float = 0,
        cycle_momentum: bool = True,
        cycle_min_mom: PerGroup = 0.8,
        cycle_max_mom: PerGroup = 0.9,
        decay_mom_rate: float = 0.0,
        last_batch_iteration: int = -1,
    ) -> None:
        super().__init__(optimizer, last_batch_iteration)
        second = cycle_first_step_size if cycle_second_step_size is None else cycle_second_step_size
        self.first, self.second = float(cycle_first_step_size), float(second)
        if self.first <= 0:
            raise user_error("cycle_first_step_size", repr(cycle_first_step_size), "above 0")
        if self.second < 0:
            raise user_error("cycle_second_step_size", repr(second), "0 or more")
        self.total_size = self.first + self.second
        self.step_ratio = self.first / self.total_size
        stairs = cycle_second_stair_count
        self.stairs = (
            cycle_first_stair_count, cycle_first_stair_count if stairs is None else stairs,
        )  # fmt: skip
        self.decay_step_size = decay_step_size
        self.decay_lr_rate, self.decay_mom_rate = decay_lr_rate, decay_mom_rate
        self.min_lrs = self._per_group("cycle_min_lr", cycle_min_lr)
        self.max_lrs = self._per_group("cycle_max_lr", cycle_max_lr)
        self.min_moms = self._per_group("cycle_min_mom", cycle_min_mom)
        self.max_moms = self._per_group("cycle_max_mom", cycle_max_mom)
        self.cycle_momentum = cycle_momentum and "betas" in optimizer.defaults
        if cycle_momentum and not self.cycle_momentum:
            warn(f"OneCycle: {type(optimizer).__name__} has no betas, so no momentum is cycled")
        self._start(self.min_lrs)
        if last_batch_iteration == -1 and self.cycle_momentum:
            self._set_moms(self.min_moms)

    def _scale(self) -> float:
        """How far up: 0 at the ends of the cycle, 1 between its halves."""
        step = self.last_batch_iteration + 1
        cycle = math.floor(1 + step / self.total_size)
        x = 1.0 + step / self.total_size - cycle
        rising = x <= self.step_ratio
        stairs = self.stairs[0] if rising else self.stairs[1]
        if stairs > 0:
            within = step % self.total_size
            if within <= self.first:
                stair = within * stairs / self.first
            else:
                stair = (self.total_size - within) * stairs / self.second
            return math.floor(stair) / stairs
        return x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)

    def _decay(self, rate: float) -> float | None:
        """The factor of decay after the cycle; None where there is none."""
        if math.isclose(self.decay_step_size, 0) or math.isclose(rate, 0):
            return None
        step = self.last_batch_iteration - self.total_size + 1
        return 1 + rate * (step / self.decay_step_size)

    def get_lr(self) -> list[float]:
        if self.last_batch_iteration < self.total_size:
            scale = self._scale()
            return [low + (high - low) * scale for low, high in zip(self.min_lrs, self.max_lrs)]
        decay = self._decay(self.decay_lr_rate)
        return self.min_lrs if decay is None else [lr / decay for lr in self.min_lrs]

    def get_mom(self) -> list[tuple[float, float]] | None:
        """The betas of each group; None where momentum is not cycled."""
        if not self.cycle_momentum:
            return None
        if self.last_batch_iteration < self.total_size:
            scale = self._scale()
            pairs = zip(self.min_moms, self.max_moms)
            moms = [high - (high - low) * scale for low, high in pairs]
        else:
            decay = self._decay(self.decay_mom_rate)
            moms = self.max_moms if decay is None else [mom * decay for mom in self.max_moms]
        return [(mom, 0.99) for mom in moms]

    def step(self, batch_iteration: int | None = None) -> None:
        super().step(batch_iteration)
        moms = self.get_mom()
        if moms is not None:
            self._set_moms([mom for mom, _ in moms])

    def _set_moms(self, moms: Sequence[float]) -> None:
        for group, mom in zip(self.optimizer.param_groups, moms):
            group["betas"] = (mom, 0.99)


SCHEDULES = {
    cls.__name__: cls for cls in (LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR, WarmupCosineLR)
}
