"""For scripts that were written for DeepSpeed: its calls and its config, trained by shardlight.

    import shardlight.deepspeed as deepspeed

    engine, optimizer, loader, scheduler = deepspeed.initialize(model=model, config="ds.json")
    for batch in loader:
        loss = engine(batch)
        engine.backward(loss)
        engine.step()

Each key of a config is honoured, or noted with what becomes of it, or refused: docs/deepspeed.md.
"""

from __future__ import annotations

from typing import Any

from shardlight.deepspeed import comm, zero
from shardlight.deepspeed._initialize import add_config_arguments, initialize
from shardlight.deepspeed.comm import init_distributed
from shardlight.deepspeed.engine import DeepSpeedEngine

__all__ = [
    "DeepSpeedEngine",
    "add_config_arguments",
    "comm",
    "init_distributed",
    "initialize",
    "zero",
]

_INSTEAD = {
    "checkpointing": "use torch.utils.checkpoint",
    "ops": "use torch.optim, whose fused kernels step",
    "init_inference": "call the module under torch.no_grad()",
    "PipelineModule": "there is no pipeline parallelism",
    "pipe": "there is no pipeline parallelism",
    "moe": "experts are sharded as all parameters are",
    "tp_model_init": "there is no tensor parallelism",
    "get_accelerator": "use torch.accelerator",
}


def __getattr__(name: str) -> Any:
    instead = _INSTEAD.get(name, "docs/deepspeed.md has what is there")
    raise AttributeError(f"shardlight.deepspeed has no {name}: {instead}")
