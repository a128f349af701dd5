#!/usr/bin/env python3
"""What the engine costs over the compute floor: the same model and fused AdamW in N processes that
exchange nothing.

    .venv/bin/python bench/engine_overhead.py build/bench/bin/engine_rank 5

Runs every variant in turns, as many rounds as the second word says, and prints for each shape the
medians of a step's wall and CPU time, and their ratios to the floor; the ratio's spread is that of
the rounds. Last, for each shape, what replicated optimizer states cost in CPU time: the part of the
floor's AdamW that a sharded one does not do, by which stage 0 may be above stages 1 to 3. Ranks are
started by `shardlight launch`, one thread and one core each.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

RANKS = 2
WARM_UP = 2  # steps that do not count
STEPS = 10
VARIANTS = ["floor", "stage0", "stage1", "stage2", "stage3", "shared3"]
# hidden, layers, vocabulary, batch, sequence: from compute-bound to traffic-bound.
SHAPES = [(512, 8, 16384, 4, 256), (512, 8, 16384, 1, 64), (1024, 8, 16384, 1, 64)]


def steps_of(launcher: Path, program: Path, variant: str, shape: tuple[int, ...]) -> dict:
    words = [launcher, "launch", "-n", str(RANKS), "--", program, variant, *shape, STEPS]
    done = subprocess.run(
        [str(word) for word in words], text=True, capture_output=True, check=True
    )
    ranks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(ranks) == RANKS, done.stdout + done.stderr
    return {
        kind: statistics.median(x for rank in ranks for x in rank[kind][WARM_UP:])
        for kind in ("wall", "cpu", "adamw_cpu")
        if ranks[0][kind]
    }


def main() -> None:
    program, rounds = Path(sys.argv[1]).resolve(), int(sys.argv[2])
    launcher = program.parent / "shardlight"
    print("| shape | variant | wall ms | CPU ms | wall x | CPU x | CPU x by round |")
    print("|---|---|---|---|---|---|---|")
    for shape in SHAPES:
        found = {variant: [] for variant in VARIANTS}
        for _ in range(rounds):
            for variant in VARIANTS:
                found[variant].append(steps_of(launcher, program, variant, shape))
        floor = found["floor"]
        for variant in VARIANTS:
            wall, cpu = (
                statistics.median(x[kind] for x in found[variant]) for kind in ("wall", "cpu")
            )
            ratio = {
                kind: [x[kind] / y[kind] for x, y in zip(found[variant], floor, strict=True)]
                for kind in ("wall", "cpu")
            }
            name = "d{} L{} V{}, {}x{}".format(*shape)
            spread = f"{min(ratio['cpu']):.3f} to {max(ratio['cpu']):.3f}"
            print(
                f"| {name} | {variant} | {wall * 1e3:.1f} | {cpu * 1e3:.1f} "
                f"| {statistics.median(ratio['wall']):.3f} "
                f"| {statistics.median(ratio['cpu']):.3f} | {spread} |",
                flush=True,
            )
        saved = [(1 - 1 / RANKS) * x["adamw_cpu"] / x["cpu"] for x in floor]
        print(f"| {name} | AdamW of others' shares | | | | {statistics.median(saved):.3f} | |")


if __name__ == "__main__":
    main()
