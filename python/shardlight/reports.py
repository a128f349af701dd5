"""What an engine says of itself: memory by tag against the ledger, traffic against the plan, and
what each stage would cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Level:
    """Bytes."""

    now: int
    peak: int
    # What the ledger says it holds between steps; None where it says nothing.
    ledger: int | None = None


@dataclass(frozen=True)
class MemoryReport:
    """Bytes of this rank by tag (docs/engine.md has the list)."""

    tags: dict[str, Level]
    total: Level

    def __str__(self) -> str:
        rows = [("tag", "now", "ledger", "peak")]
        for tag, level in [*self.tags.items(), ("total", self.total)]:
            if level.peak == 0 and not level.ledger:
                continue
            ledger = "" if level.ledger is None else _mb(level.ledger)
            rows.append((tag, _mb(level.now), ledger, _mb(level.peak)))
        lines = [f"{tag:<12}{now:>10}{ledger:>10}{peak:>10}" for tag, now, ledger, peak in rows]
        return "\n".join(["Memory of this rank, MB", *lines])


@dataclass(frozen=True)
class Times:
    """Of calls of the exchange, waiting for other ranks included. Seconds; p50 and p99 to 4.5 %."""

    calls: int
    total: float
    p50: float
    p99: float


@dataclass(frozen=True)
class TrafficReport:
    """Of this rank since the engine began: bytes, counts and seconds."""

    moved: dict[str, int]  # "gathered", "reduced": where bytes move
    planned: dict[str, int]  # by what was done
    gathers: int
    gathers_ahead: int  # of them, begun before their unit was used
    unforeseen: int  # uses that the micro-step before did not have
    gather_waited: float
    reduce_waited: float
    gather: Times
    reduce: Times
    gathered_peak: int


@dataclass(frozen=True)
class UnitPlan:
    """Parameters that are cut and fetched together."""

    name: str
    elements: int  # the padding between parameters included
    bytes: int
    trainable: bool


@dataclass(frozen=True)
class StagePlan:
    """Bytes of this rank between steps, padding included; and beyond that."""

    parameters: int
    gradients: int
    master: int
    optimizer: int
    gathered: int  # two units: the one in use and the one that is fetched ahead
    # "gathered", "reduced": of a step, every unit fetched for one use in forward and one in
    # backward. What backward does not read, as an embedding's weight, is fetched less often, what
    # is used in several places more.
    traffic: dict[str, int]

    @property
    def states(self) -> int:
        return self.parameters + self.gradients + self.master + self.optimizer


@dataclass(frozen=True)
class PlanReport:
    """What each of ZeRO's stages costs this rank, activations aside."""

    stage: int  # the engine's own
    units: list[UnitPlan]
    stages: list[StagePlan]

    def __str__(self) -> str:
        heads = ("stage", "parameters", "gradients", "master", "optimizer", "gathered", "traffic")
        lines = ["MB of this rank, traffic in a step", "".join(f"{head:>12}" for head in heads)]
        for index, stage in enumerate(self.stages):
            own = f"{index} (this)" if index == self.stage else str(index)
            numbers = [stage.parameters, stage.gradients, stage.master, stage.optimizer]
            numbers += [stage.gathered, sum(stage.traffic.values())]
            lines.append(f"{own:>12}" + "".join(f"{_mb(number):>12}" for number in numbers))
        return "\n".join(lines)


def plan_report(report: dict[str, Any], stage: int) -> PlanReport:
    stages = [StagePlan(**one) for one in report["stages"]]
    return PlanReport(stage, [UnitPlan(**unit) for unit in report["units"]], stages)


def memory_report(report: dict[str, Any]) -> MemoryReport:
    tags = {tag: Level(**level) for tag, level in report["tags"].items()}
    return MemoryReport(tags, Level(**report["total"]))


def traffic_report(report: dict[str, Any]) -> TrafficReport:
    times = {key: Times(**report[key]) for key in ("gather", "reduce")}
    return TrafficReport(**{**report, **times})


def _mb(count: int) -> str:
    return f"{count / 1e6:.3g}"
