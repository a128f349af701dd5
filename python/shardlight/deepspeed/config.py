"""A DeepSpeed config, checked key by key against the table: values, and notes of what is not as in
DeepSpeed. Nothing is dropped silently: a key is honoured, noted, or a UserError by its path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shardlight._errors import user_error
from shardlight.deepspeed._auto import AUTO, Sources, resolve
from shardlight.deepspeed._batch import MICRO, STEPS, TRAIN, Batch, batch_of
from shardlight.deepspeed._keys import SWITCHES, Fate, Key
from shardlight.deepspeed._read import Reader, load
from shardlight.deepspeed._table import KEYS, read_value


@dataclass
class Config:
    given: dict[str, Any]  # by path; "auto" is resolved, and absent where it is a default
    batch: Batch
    notes: list[str] = field(default_factory=list)

    def get(self, path: str) -> Any:
        """As given, else DeepSpeed's default."""
        value = self.given.get(path)
        return KEYS[path].default if value is None else value

    def note(self, path: str, says: str) -> None:
        self.notes.append(f"{path}: {says}")


def parse(config: Any, world: int, sources: Sources) -> Config:
    """`config`: a path, a dictionary or base64. Raises UserError by the path of a key."""
    reader = Reader(load(config))
    given: dict[str, Any] = {}
    notes: dict[str, list[str]] = {}
    for path, written in reader.values.items():
        key = KEYS[path]
        said = notes[path] = []
        value = written
        if isinstance(written, str) and written == AUTO:
            value = resolve(key, sources)
            said.append(f"{path}: auto is " + _resolved(key, value))
        value = read_value(key, value)
        if value is not None:
            _judge(key, value, said)
            given[path] = value
    _check_precision(given)
    if reader.values.get(TRAIN) == AUTO and TRAIN not in given:
        # Computed, from the script's other sizes where the config has none.
        for path in (MICRO, STEPS):
            value = given.get(path) or sources.argument(path)
            if value is not None:
                given[path] = read_value(KEYS[path], value)
    batch = batch_of(given.get(TRAIN), given.get(MICRO), given.get(STEPS), world)
    needed = [note for path, said in notes.items() if _on(path, given) for note in said]
    return Config(given, batch, reader.notes + needed)


def _on(path: str, given: dict[str, Any]) -> bool:
    switch = SWITCHES.get(path.partition(".")[0], path)
    return switch == path or given.get(switch, False)


def _resolved(key: Key, value: Any) -> str:
    if value is not None:
        return repr(value)
    return "computed from the others" if key.auto == "batch" else f"the default, {key.default!r}"


def _judge(key: Key, value: Any, notes: list[str]) -> None:
    if key.silent(value):
        return
    if key.fate is Fate.REFUSED:
        allowed = " or ".join(_json(some) for some in key.off if some is not None)
        raise user_error(key.path, _json(value), f"{allowed or 'none'}: {key.says}")
    notes.append(f"{key.path}: {key.says}")


def _json(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_precision(given: dict[str, Any]) -> None:
    fp16, bf16 = (given.get(f"{name}.enabled", False) for name in ("fp16", "bf16"))
    if fp16 and bf16:
        raise user_error("fp16.enabled, bf16.enabled", "both true", "one of them")
    said = given.get("data_types.param_dtype")
    runs = "fp16" if fp16 else "bf16" if bf16 else "fp32"
    if said is not None and said != runs:
        raise user_error("data_types.param_dtype", said, f"{runs}, as fp16 and bf16 say")
    scale = given.get("fp16.loss_scale", 0)
    if scale and (scale < 1 or scale != 2 ** (int(scale).bit_length() - 1)):
        raise user_error("fp16.loss_scale", str(scale), "0 or a power of two from 1 on")
    if given.get("fp16.initial_scale_power", 16) > 100:
        power = given["fp16.initial_scale_power"]
        raise user_error("fp16.initial_scale_power", str(power), "0 to 100")
