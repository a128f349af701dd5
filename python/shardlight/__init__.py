"""Trains any torch.nn.Module with ZeRO: each rank keeps its share of optimizer states (stage 1),
gradients (2) and parameters (3).

    engine = shardlight.Engine(model, torch.optim.AdamW(model.parameters(), lr=3e-4), stage=3)
    for batch in loader:
        loss = model(**batch).loss
        engine.backward(loss)
        engine.step()

The model is not wrapped, and any number of ranks that torchrun or `shardlight launch` started runs
the same script.
"""

from __future__ import annotations

from shardlight._version import check_torch

check_torch()

from shardlight._building import building  # noqa: E402
from shardlight._errors import BugError, Error, JobError, UserError  # noqa: E402
from shardlight._options import Choices  # noqa: E402
from shardlight.engine import Engine, StepReport  # noqa: E402
from shardlight.reports import (  # noqa: E402
    Level,
    MemoryReport,
    PlanReport,
    StagePlan,
    Times,
    TrafficReport,
    UnitPlan,
)

__all__ = [
    "BugError",
    "Choices",
    "Engine",
    "Error",
    "JobError",
    "Level",
    "MemoryReport",
    "PlanReport",
    "StagePlan",
    "StepReport",
    "Times",
    "TrafficReport",
    "UnitPlan",
    "UserError",
    "building",
]
