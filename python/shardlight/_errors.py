"""Errors of Shardlight. UserError: a setting or an argument; it has .field, .value and .allowed.
JobError: a lost rank, a time-out, no memory; it has .rank, .unit and .operation."""

from __future__ import annotations

from shardlight._engine import BugError, JobError, Error, UserError

__all__ = ["BugError", "JobError", "Error", "UserError", "user_error"]


def user_error(field: str, value: str, allowed: str) -> UserError:
    """With the engine's own wording, and all that its errors have."""
    said = f"'{value}' is not allowed" if value else "is missing"
    error = UserError(f"{field}: {said}; allowed: {allowed}")
    error.field, error.value, error.allowed = field, value, allowed
    error.unit, error.operation, error.rank = "", "", None
    return error
