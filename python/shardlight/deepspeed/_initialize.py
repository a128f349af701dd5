"""initialize() and what scripts call before it."""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch.distributed as dist
from torch import nn

from shardlight._errors import user_error
from shardlight._options import Choices
from shardlight.deepspeed import comm
from shardlight.deepspeed._auto import Sources
from shardlight.deepspeed._choices import cast, choices_of
from shardlight.deepspeed._log import prepare, tell
from shardlight.deepspeed._optimizer import optimizer_of, scheduler_of
from shardlight.deepspeed.config import Config, parse
from shardlight.deepspeed.engine import DeepSpeedEngine
from shardlight.engine import Engine

# Choices that DeepSpeedEngine counts and reports by the config.
_FROM_CONFIG = {"accumulation": "gradient_accumulation_steps", "clip_norm": "gradient_clipping"}


def initialize(
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: Any = None,
    model_parameters: Any = None,
    training_data: Any = None,
    lr_scheduler: Any = None,
    distributed_port: int = 29500,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Any = None,
    config: Any = None,
    mesh_param: Any = None,
    config_params: Any = None,
    *,
    choices: Choices | None = None,
) -> tuple[DeepSpeedEngine, Any, Any, Any]:
    """Engine, optimizer, loader of `training_data` (or None) and LR scheduler (or None).

    `config`: a path, a dictionary or base64; or args.deepspeed_config. `optimizer`: one of
    torch.optim, or a callable that makes it of the parameters; else the config's. `choices` are
    shardlight.Engine's own, and come before what the config says; accumulation and clip_norm are
    the config's alone. All ranks call it.
    Raises UserError by the config's path or the argument.
    """
    if not isinstance(model, nn.Module):
        raise user_error("model", type(model).__name__, "a torch.nn.Module")
    for name, value in (("mpu", mpu), ("mesh_param", mesh_param)):
        if value is not None:
            raise user_error(name, "given", "none: all ranks are data parallel")
    chosen = dict(choices or {})
    for name, key in _FROM_CONFIG.items():
        if name in chosen:
            raise user_error(f"choices.{name}", str(chosen[name]), f"none: {key} of the config")
    if dist_init_required:
        comm.init_distributed(distributed_port=distributed_port)
    rank, world = _place(chosen.get("ranks", "auto"))
    sources = Sources(model, args)
    parsed = parse(_one_config(args, config, config_params), world, sources)
    prepare(rank, parsed.get("log_level"))
    cast(model, parsed)
    outer = optimizer_of(optimizer, model, model_parameters, parsed, sources)
    taken: Any = {**choices_of(parsed, model, chosen.get("ranks", "auto")), **chosen}
    inner = Engine(model, outer, **taken)
    if inner.world != world:
        raise user_error("ranks", str(inner.world), f"{world}, as the launcher's variables say")
    scheduler = scheduler_of(lr_scheduler, outer, parsed, sources)
    engine = DeepSpeedEngine(inner, parsed, scheduler, collate_fn)
    if training_data is not None:
        engine.training_dataloader = engine.deepspeed_io(training_data)
    if rank == 0:
        _tell(parsed, taken)
    return engine, outer, engine.training_dataloader, scheduler


def _place(ranks: Any) -> tuple[int, int]:
    if isinstance(ranks, dist.ProcessGroup):
        return ranks.rank(), ranks.size()
    return comm.get_rank(), comm.get_world_size()


def _one_config(args: Any, config: Any, config_params: Any) -> Any:
    """The one that is given, of the places where it may be."""
    places = {
        "config": config,
        "config_params": config_params,
        "args.deepspeed_config": getattr(args, "deepspeed_config", None),
        "args.deepscale_config": getattr(args, "deepscale_config", None),
    }
    given = [name for name, value in places.items() if value is not None]
    if not given:
        raise user_error("config", "none", "a path or a dictionary, or args.deepspeed_config")
    if len(given) > 1:
        raise user_error("config", "given as " + " and ".join(given), "one of them")
    return places[given[0]]


def _tell(config: Config, choices: dict[str, Any]) -> None:
    if config.get("dump_state"):
        batch = config.batch
        made = {**config.given, "batch": [batch.train, batch.micro, batch.accumulation]}
        tell("config: " + json.dumps(made, indent=2, default=str))
        tell("choices: " + json.dumps(choices, default=str))
    if config.notes:
        tell("what is not as in DeepSpeed (docs/deepspeed.md):\n  " + "\n  ".join(config.notes))


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """--deepspeed and --deepspeed_config, and the deprecated --deepscale and --deepscale_config."""
    group = parser.add_argument_group("DeepSpeed", "as shardlight.deepspeed takes them")
    group.add_argument("--deepspeed", action="store_true", help="for the script itself")
    group.add_argument("--deepspeed_config", default=None, help="path of the JSON config")
    group.add_argument("--deepscale", action="store_true", help="deprecated: --deepspeed")
    group.add_argument("--deepscale_config", default=None, help="deprecated: --deepspeed_config")
    return parser
