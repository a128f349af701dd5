"""What the package tells, on rank 0, by the logger `shardlight.deepspeed`."""

from __future__ import annotations

import logging

from shardlight._errors import user_error

LOGGER = logging.getLogger("shardlight.deepspeed")
_LEVELS = ("debug", "info", "warning", "error", "critical")


def prepare(rank: int, level: str | None) -> None:
    """Rank 0 from INFO on unless told otherwise, the others from ERROR on; on stderr unless the
    program has set up logging."""
    if level is not None and level.lower() not in _LEVELS:
        raise user_error("log_level", level, ", ".join(_LEVELS))
    LOGGER.setLevel((level or "info").upper() if rank == 0 else "ERROR")
    if not LOGGER.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        LOGGER.addHandler(handler)


def tell(message: str) -> None:
    LOGGER.info(message)


def warn(message: str) -> None:
    LOGGER.warning(message)
