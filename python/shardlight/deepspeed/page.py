"""The table of keys as docs/deepspeed.md shows it. As a program it writes the page's tables anew:
python -m shardlight.deepspeed.page docs/deepspeed.md"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

from shardlight.deepspeed._keys import Fate, Key
from shardlight.deepspeed._keys_blocks import BLOCKS
from shardlight.deepspeed._keys_zero import FLAGS_OF_OLD
from shardlight.deepspeed._table import SECTIONS

_GENERATED = re.compile(r"(?<=<!-- keys -->\n).*?(?=<!-- end of keys -->)", re.DOTALL)


def tables() -> str:
    """Of all keys and blocks, section by section."""
    lines: list[str] = []
    for title, keys in SECTIONS.items():
        lines += [f"### {title}", "", "| key | default | fate | here |", "|---|---|---|---|"]
        lines += [_row(key) for key in keys]
        lines.append("")
    lines += ["### Deprecated", "", "| key | true is read as |", "|---|---|"]
    for path, meant in FLAGS_OF_OLD.items():
        says = ", ".join(f"`{name}`: {_json(value)}" for name, value in meant.items())
        lines.append(f"| `{path}` | {says} |")
    lines += ["", "### Features that are not here", "", "Accepted where they are off.", ""]
    lines += ["| block | keys | where it is on | here |", "|---|---|---|---|"]
    for block in BLOCKS:
        keys = ", ".join(f"`{name}`" for name in block.keys) or "any"
        lines.append(f"| `{block.path}` | {keys} | {block.fate.value} | {block.says} |")
    return "\n" + "\n".join(lines) + "\n\n"


def _row(key: Key) -> str:
    default = "" if key.default is None else f"`{_json(key.default)}`"
    return f"| `{key.path}` | {default} | {_fate(key)} | {key.says} |"


def _fate(key: Key) -> str:
    asks = [_json(value) for value in key.off if value is not None and not _doubled(key, value)]
    if not asks or key.fate is Fate.HONOURED:
        return key.fate.value
    return f"{key.fate.value} but for {', '.join(asks)}"


def _doubled(key: Key, value: Any) -> bool:
    """A whole number that stands there as a float too."""
    return isinstance(value, float) and value.is_integer() and any(
        type(other) is int and other == value for other in key.off
    )  # fmt: skip


def _json(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >= 10_000 and value < 2**60:
        digits = len(str(value)) - 1
        return f"{value / 10**digits:g}e{digits}"
    return "2^63 - 1" if value == 2**63 - 1 else "Infinity" if value == math.inf else str(value)


def rendered(page: str) -> str:
    """The page with its tables written anew."""
    return _GENERATED.sub(lambda match: tables(), page)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rendered(path.read_text()))
