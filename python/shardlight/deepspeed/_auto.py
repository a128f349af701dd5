"""What "auto" means, from the model, the optimizer and the script's arguments (argparse's, or
transformers' TrainingArguments); what they do not tell is asked for by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from shardlight._errors import UserError, user_error
from shardlight.deepspeed._keys import Key

AUTO = "auto"
_NAMES_OF_ARGS = {
    "train_batch_size": ("train_batch_size",),
    "train_micro_batch_size_per_gpu": (
        "train_micro_batch_size_per_gpu", "per_device_train_batch_size",
    ),
    "gradient_accumulation_steps": ("gradient_accumulation_steps",),
    "gradient_clipping": ("max_grad_norm", "gradient_clipping"),
    "optimizer.params.lr": ("learning_rate", "lr"),
    "optimizer.params.eps": ("adam_epsilon", "eps"),
    "optimizer.params.weight_decay": ("weight_decay",),
    "scheduler.params.warmup_num_steps": ("warmup_steps", "num_warmup_steps"),
    "scheduler.params.total_num_steps": ("max_steps", "num_training_steps", "max_train_steps"),
}  # fmt: skip


@dataclass
class Sources:
    model: nn.Module
    args: Any = None

    def argument(self, path: str) -> Any:
        """Of the script, under its usual names; None where there is none."""
        for name in _NAMES_OF_ARGS.get(path, ()):
            # TrainingArguments compute a train_batch_size of one process, without accumulation.
            if isinstance(getattr(type(self.args), name, None), property):
                continue
            value = getattr(self.args, name, None)
            # transformers says -1 of steps it does not know.
            if value is not None and not (path.endswith("total_num_steps") and value <= 0):
                return value
        return None

    def has_parameters_of(self, dtype: torch.dtype) -> bool:
        return any(parameter.dtype == dtype for parameter in self.model.parameters())

    def hidden_size(self) -> int | None:
        """As models of transformers tell it; of several the largest."""
        config = getattr(self.model, "config", None)
        config = getattr(config, "text_config", None) or config
        several = getattr(config, "hidden_sizes", None)
        return getattr(config, "hidden_size", None) or (max(several) if several else None)


def resolve(key: Key, sources: Sources) -> Any:
    """The value of a key that says "auto"; None for DeepSpeed's default. Raises UserError."""
    if key.auto in ("batch", "default"):
        return sources.argument(key.path)
    if key.auto in ("fp16", "bf16"):
        said = getattr(sources.args, key.auto, None)
        dtype = torch.float16 if key.auto == "fp16" else torch.bfloat16
        return sources.has_parameters_of(dtype) if said is None else bool(said)
    if key.auto.startswith("hidden"):
        return _of_hidden(key, sources.hidden_size())
    value = sources.argument(key.path) if key.auto else None
    if value is None:
        raise asked_for(key.path)
    return value


def _of_hidden(key: Key, hidden: int | None) -> int:
    """As transformers fills them in (integrations/deepspeed.py)."""
    if hidden is None:
        raise asked_for(key.path)
    return {
        "hidden_squared": hidden * hidden,
        "hidden_prefetch": int(0.9 * hidden * hidden),
        "hidden_persistence": 10 * hidden,
    }[key.auto]


def asked_for(path: str) -> UserError:
    names = " or ".join(f"args.{name}" for name in _NAMES_OF_ARGS.get(path, ()))
    return user_error(
        path, AUTO, "a value, as neither the model nor the arguments tell it" +
        (f" ({names})" if names else ""),
    )  # fmt: skip


def resolve_params(path: str, params: dict[str, Any], sources: Sources, lr: Any) -> dict[str, Any]:
    """Those of an optimizer or a scheduler; `lr` is the optimizer's, once there is one."""
    resolved = {}
    for name, value in params.items():
        full = f"{path}.{name}"
        if isinstance(value, str) and value == AUTO:
            value = _param(full, name, sources, lr)
            if value is None:
                raise asked_for(full)
        resolved[name] = value
    return resolved


def _param(full: str, name: str, sources: Sources, lr: Any) -> Any:
    if name == "betas":
        betas = [getattr(sources.args, f"adam_beta{index}", None) for index in (1, 2)]
        return None if None in betas else tuple(betas)
    if name == "warmup_min_lr":
        return 0
    if name == "warmup_max_lr":
        return lr
    return sources.argument(full)
