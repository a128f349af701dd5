"""What of transformers and TrainingArguments cannot be honoured: refused by name, with the way
out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import transformers
from transformers import TrainingArguments

from shardlight._errors import user_error

# They step each element by itself and come with torch.
OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "sgd", "adagrad", "rmsprop")

_SAVES = (
    'save_strategy="no"; trainer.save_model() on all ranks saves the weights '
    "(states cannot be saved and loaded yet)"
)
_CAST = "False; load the model with that dtype: the engine keeps fp32 masters of 16-bit weights"


def _value(setting: Any) -> str:
    return str(getattr(setting, "value", setting))


def _given(value: Any) -> bool:
    return bool(value)


def _unless(*allowed: str) -> Callable[[Any], bool]:
    return lambda value: _value(value) not in allowed


# Field, whether its value is refused, and what is allowed instead.
_REFUSED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("save_strategy", _unless("no"), _SAVES),
    ("load_best_model_at_end", _given, "False, as checkpoints cannot be saved yet"),
    ("resume_from_checkpoint", _given, "None, as states cannot be loaded yet"),
    ("enable_jit_checkpoint", _given, "False, as checkpoints cannot be saved yet"),
    ("fp16", _given, "False; load the model with dtype=torch.float16: the engine scales losses"),
    ("fp16_full_eval", _given, _CAST),
    ("bf16_full_eval", _given, _CAST),
    ("torch_compile", _given, "False: the engine sees operators, not compiled graphs"),
    ("fsdp", _given, "none: the engine shards the model"),
    ("deepspeed", _given, "none: the engine shards the model"),
    ("parallelism_config", _given, "none: all ranks are data parallel"),
    ("ddp_broadcast_buffers", _given, "None, and Trainer(synchronize_buffers=True)"),
    ("auto_find_batch_size", _given, "False: ranks could end with batches of different sizes"),
)


def check_version(hooks: tuple[str, ...]) -> None:
    """ImportError where transformers' Trainer has not all methods that ours replaces."""
    missing = [name for name in hooks if not hasattr(transformers.Trainer, name)]
    if missing:
        raise ImportError(
            f"shardlight.transformers is made for transformers 5.24, and the Trainer of "
            f"{transformers.__version__} has no {', '.join(missing)}: "
            "pip install 'transformers==5.24.*'"
        )


def check_arguments(args: TrainingArguments) -> None:
    """Errors: the first field whose value is refused. transformers itself has set some of them
    from others before (save_strategy by load_best_model_at_end)."""
    for field, refused, allowed in _REFUSED:
        value = getattr(args, field, None)
        if refused(value):
            raise user_error(field, _value(value), allowed)
    if not args.accelerator_config.even_batches:
        raise user_error(
            "accelerator_config.even_batches",
            "False",
            "True: all ranks of Trainer have as many batches (engine.join() is for own loops)",
        )


def check_optimizer(name: Any) -> None:
    if _value(name) not in OPTIMIZERS:
        raise user_error(
            "optim",
            _value(name),
            ", ".join(OPTIMIZERS) + "; others as optimizer_cls_and_kwargs, if they step each "
            "element by itself",
        )
