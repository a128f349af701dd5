"""train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * ranks."""

from __future__ import annotations

from dataclasses import dataclass

from shardlight._errors import user_error

TRAIN, MICRO = "train_batch_size", "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"


@dataclass(frozen=True)
class Batch:
    train: int
    micro: int
    accumulation: int


def batch_of(train: int | None, micro: int | None, steps: int | None, world: int) -> Batch:
    """Any two give the third; with one of the sizes alone there is no accumulation.

    Raises UserError by field where they do not fit, or neither size is given.
    """
    if train is None and micro is None:
        raise user_error(f"{TRAIN}, {MICRO}", "neither", "at least one of them")
    if train is None:
        assert micro is not None
        return Batch(micro * (steps or 1) * world, micro, steps or 1)
    if micro is None:
        steps = steps or 1
        micro = _quotient(train, {STEPS: steps}, world)
    elif steps is None:
        steps = _quotient(train, {MICRO: micro}, world)
    if micro * steps * world != train:
        raise user_error(
            TRAIN, str(train),
            f"{micro * steps * world}, which is {MICRO} {micro} * {STEPS} {steps} * {world} ranks",
        )  # fmt: skip
    return Batch(train, micro, steps)


def _quotient(train: int, by: dict[str, int], world: int) -> int:
    ((name, number),) = by.items()
    quotient, rest = divmod(train, number * world)
    if rest or quotient < 1:
        raise user_error(
            TRAIN, str(train), f"a multiple of {number * world}, which is {name} {number} * "
            f"{world} ranks",
        )  # fmt: skip
    return quotient
