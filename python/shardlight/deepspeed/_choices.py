"""What a config is to shardlight.Engine: choices, casts, and notes where they differ."""

from __future__ import annotations

import fnmatch
from typing import Any

import torch
from torch import nn

from shardlight._errors import user_error
from shardlight._options import Choices
from shardlight._ranks import resolved
from shardlight.deepspeed._keys_zero import ZERO_PATH
from shardlight.deepspeed.config import Config

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_NEVER = 1 << 62
_MOST_BYTES = 1 << 62


def dtype_of(config: Config) -> torch.dtype | None:
    """To which parameters are cast; None: they stay as they are."""
    for name in ("fp16", "bf16"):
        if config.get(f"{name}.enabled"):
            return _DTYPES[name]
    return None


def cast(model: nn.Module, config: Config) -> None:
    """In place, as DeepSpeed does before it shards: parameters, and buffers if told so."""
    dtype = dtype_of(config)
    if dtype is not None:
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype)
    said = config.get("data_types.buffer_dtype")
    if said is None:
        return
    keep = config.given.get("data_types.keep_in_fp32_modules", [])
    for name, buffer in model.named_buffers():
        kept = any(pattern in name or fnmatch.fnmatch(name, pattern) for pattern in keep)
        if buffer.is_floating_point():
            buffer.data = buffer.data.to(torch.float32 if kept else _DTYPES[said])


def choices_of(config: Config, model: nn.Module, ranks: Any) -> Choices:
    """Of shardlight.Engine. `ranks`: what it will be told of them."""
    _check_offload(config, model)
    choices: Choices = {
        "stage": config.get(ZERO_PATH + "stage"),
        "accumulation": config.batch.accumulation,
    }
    norm = config.get("gradient_clipping")
    if norm:
        choices["clip_norm"] = float(norm)
    if "gradient_clipping" not in config.given:
        config.note("gradient_clipping", "not given: 1, as in DeepSpeed 0.19; 0 is none")
    _scale(config, choices)
    _sizes(config, model, ranks, choices)
    return choices


def _scale(config: Config, choices: Choices) -> None:
    dtype = dtype_of(config)
    if dtype is not None and "data_types.grad_accum_dtype" not in config.given:
        config.note("data_types.grad_accum_dtype", "not given: fp32, not the parameters' dtype")
    if dtype is not torch.float16:
        return
    static = config.get("fp16.loss_scale")
    choices["loss_scale"] = float(static or 2.0 ** config.get("fp16.initial_scale_power"))
    window = config.get("fp16.loss_scale_window")
    choices["loss_scale_growth_interval"] = _NEVER if static else window
    if "fp16.hysteresis" not in config.given:
        config.note("fp16.hysteresis", "not given: 1, every skipped step halves the loss scale")


def _sizes(config: Config, model: nn.Module, ranks: Any, choices: Choices) -> None:
    size = max((p.element_size() for p in model.parameters()), default=4)
    stage = choices["stage"]
    cap = config.given.get(ZERO_PATH + "stage3_max_live_parameters")
    if cap is not None and stage == 3:
        choices["gathered_bytes"] = min(cap * size, _MOST_BYTES)
    if not config.given.get(ZERO_PATH + "overlap_comm"):
        return
    if not _one_sided(model, ranks):
        config.note(ZERO_PATH + "overlap_comm", "off, as ranks meet over torch.distributed")
        return
    choices["bucket_bytes"] = min(
        config.get(ZERO_PATH + "reduce_bucket_size") * size, _MOST_BYTES
    )  # fmt: skip
    if stage == 3:
        ahead = config.get(ZERO_PATH + "stage3_prefetch_bucket_size")
        choices["prefetch_bytes"] = min(ahead * size, _MOST_BYTES)


def _one_sided(model: nn.Module, ranks: Any) -> bool:
    """Whether ranks will read each other's memory."""
    first = next(model.parameters(), torch.empty(0))
    return bool(resolved(ranks, first.device) == "shm")


def _check_offload(config: Config, model: nn.Module) -> None:
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    for block in ("offload_optimizer", "offload_param"):
        path = f"{ZERO_PATH}{block}.device"
        device = config.get(path)
        if device == "nvme":
            raise user_error(path, device, "none or cpu: nothing is kept on NVMe yet")
        if device == "cpu" and not on_cpu:
            raise user_error(path, device, "none: of a model that is not on the CPU, yet")
