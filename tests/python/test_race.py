"""The table of bench/peers/race.py where engines are missing."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def race(monkeypatch):
    folder = Path(__file__).resolve().parents[2] / "bench" / "peers"
    monkeypatch.syspath_prepend(str(folder))
    for name in ("race", "chart", "engines", "work"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import race

    return race


def row(engine, cpu):
    zero = dict.fromkeys(("step_ms", "sent", "import_s", "start_s", "loss"), 1.0)
    return {"engine": engine, "cpu_ms": cpu, "growth": None, **zero}


def column(table):
    return [line.split("|")[5].strip() for line in table.splitlines() if line.startswith("| e-")]


def test_cpu_over_the_floor_is_empty_without_the_floor(race):
    rows = [row("e-one", 4.0), row("e-two", 8.0)]
    assert column(race.table(rows, "comm", 2, 1)) == ["", ""]
    assert column(race.table([row("plain", 2.0), *rows], "comm", 2, 1)) == ["2.00", "4.00"]
    assert column(race.table([], "comm", 2, 1)) == []
