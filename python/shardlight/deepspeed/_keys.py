"""What a key of a DeepSpeed config is, and what becomes of it: rows of data, which the parser, the
page docs/deepspeed.md and its test read. Names and defaults are those of DeepSpeed 0.19.8
(deepspeed/runtime/config.py, constants.py, precision_config.py, zero/config.py and others)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class Fate(enum.Enum):
    HONOURED = "honoured"
    MAPPED = "mapped"  # to what comes nearest here, which a note says
    NOTED = "noted"  # changes nothing here, which a note says
    REFUSED = "refused"


@dataclass(frozen=True)
class Key:
    path: str
    # flag, count (0 or more), positive (count from 1 on), number (0 or more), interval (count or
    # infinity), text, names, free, or the allowed words
    kind: str | tuple[str, ...]
    default: Any  # DeepSpeed's; None where it has none
    fate: Fate
    says: str
    sample: Any  # a value of which `fate` is true
    off: tuple[Any, ...] = ()  # values that ask for nothing, of a key that is noted or refused
    auto: str = ""  # what resolves "auto" (_auto.py); "default": DeepSpeed's default; "": asked for

    def silent(self, value: Any) -> bool:
        """Neither a note nor an error."""
        return self.fate is Fate.HONOURED or any(
            value is some or (value == some and type(value) is type(some)) for some in self.off
        )


# Sections with a switch of their own: while it is off, nothing of them needs a note.
SWITCHES = {"fp16": "fp16.enabled", "bf16": "bf16.enabled"}


@dataclass(frozen=True)
class Block:
    """Keys that share one fate, as they belong to a feature that is not here."""

    path: str
    keys: tuple[str, ...]  # none: whatever is in it
    fate: Fate
    says: str
    switch: str = ""  # the key that turns it on; "": any of them does

    def on(self, value: Any) -> bool:
        """Whether it asks for anything."""
        nothing = (None, False, 0, {}, "auto")
        if not isinstance(value, dict):
            return value not in nothing
        if self.switch or "enabled" in value:
            return value.get(self.switch or "enabled") not in nothing
        return any(some not in nothing for some in value.values())


H, M, N, R = Fate.HONOURED, Fate.MAPPED, Fate.NOTED, Fate.REFUSED

BATCH = (
    Key("train_batch_size", "positive", None, H,
        "samples of all ranks in a step", 8, auto="batch"),
    Key("train_micro_batch_size_per_gpu", "positive", None, H,
        "samples of a rank in a backward pass; the loader's batch size", 4, auto="batch"),
    Key("gradient_accumulation_steps", "positive", None, H,
        "`accumulation`: backward passes in a step", 2, auto="batch"),
    Key("managed_gradient_accumulation", "flag", True, R,
        "step() comes after gradient_accumulation_steps backward passes; use "
        "set_gradient_accumulation_boundary() to say when", False, off=(True,)),
)  # fmt: skip

TRAINING = (
    Key("gradient_clipping", "number", 1.0, H,
        "`clip_norm`, 0 for none. DeepSpeed 0.19 clips at 1 where a config says nothing, and so "
        "does this; the norm is exact", 0.5, auto="max_grad_norm"),
    Key("prescale_gradients", "flag", False, N,
        "gradients are added in fp32 and divided once, which cannot overflow", True, off=(False,)),
    Key("gradient_predivide_factor", "number", 1.0, N,
        "gradients are added in fp32 and divided once, which cannot overflow", 2.0, off=(1.0, 1)),
    Key("gradient_allreduce_op", ("mean", "sum"), "mean", R,
        "gradients are a mean over ranks; multiply the loss by their number", "sum",
        off=("mean",)),
    Key("communication_data_type", ("fp32", "fp16", "bf16"), None, R,
        "gradients are added in fp32", "bf16", off=("fp32", None)),
    Key("seq_parallel_communication_data_type", ("fp32", "fp16", "bf16"), "fp32", N,
        "there is no sequence parallelism", "bf16", off=("fp32",)),
    Key("disable_allgather", "flag", False, N,
        "parameters are gathered when they are used, not at the end of a step", True,
        off=(False,)),
    Key("zero_allow_untested_optimizer", "flag", False, N,
        "an optimizer is tried out when the engine is made", True),
    Key("zero_force_ds_cpu_optimizer", "flag", True, N,
        "there is no DeepSpeedCPUAdam; torch's fused kernels step", True, off=(False,)),
    Key("dataloader_drop_last", "flag", False, H,
        "whether the loader drops its last, smaller batch", True),
    Key("disable_python_gc", "flag", False, N,
        "call gc.disable() where you want it", True, off=(False,)),
    Key("use_data_before_expert_parallelism", "flag", False, R,
        "there is no expert parallelism", True, off=(False,)),
    Key("sequence_parallel_size", "positive", 1, R,
        "there is no sequence parallelism", 2, off=(1,)),
    Key("data_parallel_size", "positive", None, N,
        "all ranks are data parallel", 2),
    Key("vocabulary_size", "positive", None, N,
        "DeepSpeed only warns of sizes that tensor cores dislike", 1024),
    Key("allgather_size", "count", 500_000_000, N,
        "belongs to the form `zero_optimization: true`; parameters are gathered by units", 1000),
)  # fmt: skip

REPORTS = (
    Key("steps_per_print", "interval", None, H,
        "rank 0 logs step, skipped steps, lr and momentum every so many steps; `Infinity` is "
        "never", 10, auto="default"),
    Key("wall_clock_breakdown", "flag", False, H,
        "rank 0 logs the milliseconds of forward, backward and step, in each step", True,
        auto="default"),
    Key("memory_breakdown", "flag", False, H,
        "rank 0 logs memory by tag after each step", True),
    Key("dump_state", "flag", False, H,
        "rank 0 logs what was made of the config", True),
    Key("log_level", "text", None, H,
        "level of the logger `shardlight.deepspeed`", "info"),
)  # fmt: skip

PRECISION = (
    Key("fp16.enabled", "flag", False, H,
        "floating-point parameters are cast to fp16 before the engine is made, with fp32 masters "
        "at every stage; buffers keep their dtype", True, auto="fp16"),
    Key("fp16.auto_cast", "flag", False, H,
        "floating-point inputs of engine(…) are cast to fp16", True, auto="default"),
    Key("fp16.loss_scale", "number", 0, M,
        "a power of two; it is the first loss scale and never grows, but halves when a step is "
        "skipped, which DeepSpeed's does not. 0: dynamic", 128, off=(0, 0.0), auto="default"),
    Key("fp16.initial_scale_power", "count", 16, H,
        "the first loss scale is 2 to this power", 10, auto="default"),
    Key("fp16.loss_scale_window", "positive", 1000, M,
        "the loss scale doubles after so many steps without a skipped one; DeepSpeed's one step "
        "later", 100, auto="default"),
    Key("fp16.hysteresis", "positive", 2, M,
        "every skipped step halves the loss scale, as with 1", 2, off=(1,), auto="default"),
    Key("fp16.consecutive_hysteresis", "flag", False, N,
        "hysteresis is 1, so there is none to refill", True, off=(False,), auto="default"),
    Key("fp16.min_loss_scale", "number", 1, M,
        "the loss scale goes down to 1", 2, off=(1, 1.0), auto="default"),
    Key("fp16.fp16_master_weights_and_grads", "flag", False, R,
        "masters and sums are fp32", True, off=(False,), auto="default"),
    Key("bf16.enabled", "flag", False, H,
        "floating-point parameters are cast to bf16 before the engine is made, with fp32 masters "
        "at every stage; buffers keep their dtype", True, auto="bf16"),
    Key("bf16.immediate_grad_update", "flag", False, N,
        "gradients are added to fp32 sums as soon as they are there", True, off=(False,),
        auto="default"),
    Key("bf16.check_grad_overflow", "flag", True, N,
        "a gradient that is not finite makes all ranks skip the step, always", False,
        off=(True,), auto="default"),
    Key("bf16.bf16_master_weights_and_grads", "flag", False, R,
        "masters and sums are fp32", True, off=(False,), auto="default"),
    Key("bf16.bf16_optimizer_states", "flag", False, R,
        "states are fp32", True, off=(False,), auto="default"),
    Key("data_types.grad_accum_dtype", ("fp32", "fp16", "bf16"), None, R,
        "gradients are added up in fp32", "bf16", off=("fp32", None), auto="default"),
    Key("data_types.param_dtype", ("fp32", "fp16", "bf16"), None, H,
        "must be what fp16 or bf16 says, as in DeepSpeed", "fp32", auto="default"),
    Key("data_types.buffer_dtype", ("fp32", "fp16", "bf16"), None, H,
        "floating-point buffers are cast to it", "bf16", auto="default"),
    Key("data_types.keep_in_fp32_modules", "names", "auto", H,
        "patterns of names of buffers that `buffer_dtype` leaves in fp32; \"auto\" is none, as "
        "buffers keep their dtype without it", ["norm"], auto="default"),
    Key("torch_autocast.enabled", "flag", False, R,
        "call the engine under torch.autocast", True, off=(False,), auto="default"),
    Key("torch_autocast.dtype", "text", None, N,
        "belongs to torch_autocast, which is off", "bfloat16"),
    Key("torch_autocast.lower_precision_safe_modules", "names", None, N,
        "belongs to torch_autocast, which is off", ["torch.nn.modules.linear.Linear"]),
)  # fmt: skip

MADE = (
    Key("optimizer.type", "text", None, H,
        "Adam (adam_w_mode is true unless given, so it is AdamW), AdamW, Adagrad, or the name of "
        "a class of torch.optim, by torch's fused kernels. Lion, Lamb, Muon and Mu* are refused",
        "AdamW"),
    Key("optimizer.params", "free", None, H,
        "its arguments. torch_adam, adam_w_mode; weight_decay is 0 unless given or torch_adam is "
        "true; max_grad_norm is refused, as gradient_clipping is its place", {"lr": 0.001}),
    Key("optimizer.legacy_fusion", "flag", False, N,
        "there is one way to step", True, off=(False,)),
    Key("scheduler.type", "text", None, H,
        "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest by DeepSpeed's formulas, "
        "or a class of torch.optim.lr_scheduler; steps within engine.step()", "WarmupLR"),
    Key("scheduler.params", "free", None, H,
        "its arguments", {"warmup_num_steps": 10}),
)  # fmt: skip
