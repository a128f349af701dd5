"""Reads a DeepSpeed config: a file, a dictionary or base64, and the spellings that are about."""

from __future__ import annotations

import base64
import binascii
import copy
import difflib
import json
import os
from pathlib import Path
from typing import Any

from shardlight._errors import user_error
from shardlight.deepspeed._keys import Fate
from shardlight.deepspeed._keys_zero import FLAGS_OF_OLD, OTHER_NAMES, ZERO_PATH
from shardlight.deepspeed._table import BLOCK_OF, KEYS, unknown_key


def load(config: Any) -> dict[str, Any]:
    """What is in the file, the dictionary or the base64 text. Errors: UserError by `config`."""
    if isinstance(config, dict):
        return copy.deepcopy(config)
    if not isinstance(config, (str, os.PathLike)):
        raise user_error("config", type(config).__name__, "a path or a dictionary")
    path = Path(config)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        text = _decoded(config)
        if text is None:
            reason = getattr(error, "strerror", None) or str(error)
            raise user_error(
                "config", str(config), f"a file that can be read ({reason}), or a dictionary"
            ) from None
    try:
        loaded = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise user_error("config", str(config), f"a file of JSON ({error})") from None
    if not isinstance(loaded, dict):
        raise user_error("config", str(config), "a file with one JSON object")
    return loaded


def _decoded(config: Any) -> str | None:
    try:
        return base64.urlsafe_b64decode(str(config)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise user_error(key, "given twice", "each key once")
        found[key] = value
    return found


class Reader:
    """The values by path, as they are written; `notes` says what was read as something else."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []
        for key, value in raw.items():
            if not isinstance(key, str):
                raise user_error("config", f"the key {key!r}", "keys that are texts")
            if "." in key:
                self.notes.append(f"{key}: read as if it were nested")
            self._take(key, value)

    def _take(self, path: str, value: Any) -> None:
        if path == "bfloat16" or path.startswith("bfloat16."):
            self.notes.append(f"{path}: read as {path.replace('bfloat16', 'bf16', 1)}")
            path = path.replace("bfloat16", "bf16", 1)
        if path in BLOCK_OF:
            self._take_block(path, value)
        elif path in KEYS:
            self._set(path, value)
        elif path in OTHER_NAMES:
            self.notes.append(f"{path}: read as {OTHER_NAMES[path]}")
            self._set(OTHER_NAMES[path], value)
        elif path in FLAGS_OF_OLD:
            self._take_old(path, value)
        elif path == ZERO_PATH[:-1] and isinstance(value, bool):
            self.notes.append(f"{path}: {value} is read as stage {int(value)}")
            self._set(ZERO_PATH + "stage", int(value))
        elif any(known.startswith(path + ".") for known in (*KEYS, *BLOCK_OF)):
            self._take_nested(path, value)
        else:
            raise unknown_key(path)

    def _take_nested(self, path: str, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, dict):
            raise user_error(path, repr(value), "an object with keys of its own")
        for key, inner in value.items():
            self._take(f"{path}.{key}", inner)

    def _take_old(self, path: str, value: Any) -> None:
        meant = FLAGS_OF_OLD[path]
        says = ", ".join(f"{name} = {some}" for name, some in meant.items())
        if not isinstance(value, bool):
            raise user_error(path, repr(value), f"true or false; true is {says}")
        self.notes.append(f"{path}: deprecated; " + (f"read as {says}" if value else "nothing"))
        for name, some in meant.items() if value else ():
            if name not in self.values:
                self._set(name, some)

    def _take_block(self, path: str, value: Any) -> None:
        block = BLOCK_OF[path]
        if isinstance(value, dict) and block.keys:
            for key in value:
                if key not in block.keys:
                    near = difflib.get_close_matches(key, block.keys, n=1)
                    meant = f"did you mean {near[0]}? " if near else ""
                    names = ", ".join(block.keys)
                    raise user_error(f"{path}.{key}", "given", f"{meant}one of: {names}")
        if not block.on(value):
            return
        if block.fate is Fate.REFUSED:
            raise user_error(path, "given", f"none: {block.says}")
        self.notes.append(f"{path}: {block.says}")

    def _set(self, path: str, value: Any) -> None:
        if path in self.values:
            raise user_error(path, f"given twice, {self.values[path]!r} and {value!r}", "once")
        self.values[path] = value
