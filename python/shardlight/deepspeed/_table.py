"""All rows of the table of keys, and how a value of each kind is read."""

from __future__ import annotations

import difflib
import math
from typing import Any

from shardlight._errors import UserError, user_error
from shardlight.deepspeed._keys import BATCH, MADE, PRECISION, REPORTS, TRAINING, Block, Key
from shardlight.deepspeed._keys_blocks import BLOCKS
from shardlight.deepspeed._keys_zero import OFFLOAD, STAGE_3, STAGES

SECTIONS: dict[str, tuple[Key, ...]] = {
    "Batch": BATCH,
    "Training": TRAINING,
    "Optimizer and scheduler": MADE,
    "Precision": PRECISION,
    "ZeRO": STAGES,
    "ZeRO stage 3": STAGE_3,
    "Offloading": OFFLOAD,
    "Reports": REPORTS,
}
KEYS: dict[str, Key] = {key.path: key for keys in SECTIONS.values() for key in keys}
BLOCK_OF: dict[str, Block] = {block.path: block for block in BLOCKS}

_ALLOWED = {
    "flag": "true or false",
    "stage": "0, 1, 2 or 3",
    "count": "a whole number from 0 on, also as 5e8",
    "positive": "a whole number from 1 on, also as 5e8",
    "interval": "a whole number from 1 on, or Infinity",
    "number": "a finite number from 0 on",
    "text": "a text",
    "names": "a list of names, or one",
}


def allowed_of(key: Key) -> str:
    return ", ".join(key.kind) if isinstance(key.kind, tuple) else _ALLOWED[key.kind]


def read_value(key: Key, value: Any) -> Any:
    """The value as the key's kind has it. Raises UserError by the key's path."""
    if key.kind == "free" or value is None:
        return value
    read = _read_word(key.kind, value) if isinstance(key.kind, tuple) else _read(key.kind, value)
    if read is None:
        raise user_error(key.path, _shown(value), allowed_of(key))
    return read


def _read_word(words: tuple[str, ...], value: Any) -> str | None:
    word = value.lower() if isinstance(value, str) else None
    return word if word in words else None


def _read(kind: str, value: Any) -> Any:
    if kind == "flag":
        return value if isinstance(value, bool) else None
    if kind == "text":
        return value if isinstance(value, str) else None
    if kind == "names":
        value = [value] if isinstance(value, str) else value
        names = isinstance(value, list) and all(isinstance(name, str) for name in value)
        return value if names else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if kind == "number":
        return value if value >= 0 and math.isfinite(value) else None
    if kind == "interval" and value == math.inf:
        return math.inf
    if not math.isfinite(value) or value != int(value):
        return None
    least = 0 if kind in ("count", "stage") else 1
    whole = int(value)
    return whole if whole >= least and (kind != "stage" or whole <= 3) else None


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def unknown_key(path: str) -> UserError:
    """Of a key that is in no table: the nearest one is named."""
    known = [*KEYS, *BLOCK_OF]
    last = path.rpartition(".")[2]
    elsewhere = [other for other in known if other.rpartition(".")[2] == last]
    near = elsewhere or difflib.get_close_matches(path, known, n=1, cutoff=0.6)
    if not near:
        by_last = {other.rpartition(".")[2]: other for other in known}
        near = [by_last[name] for name in difflib.get_close_matches(last, by_last, n=1)]
    meant = f"did you mean {near[0]}? " if near else ""
    return user_error(path, "given", meant + "a key of DeepSpeed 0.19 (docs/deepspeed.md)")
