#!/usr/bin/env python3
"""The memory of a rank beside that of one process that shards nothing.

    .venv/bin/python bench/engine_memory.py build/bench/bin/engine_rank

Trains a GPT of 117.6M parameters (d 1024, 8 layers, vocabulary 16384, 1 x 64 tokens) and prints for
each variant and number of ranks the growth of the proportional set size from before the model to
its peak, of the rank that grows most, in MB of 10^6 bytes and as a share of the plain process's.
"""

import json
import subprocess
import sys
from pathlib import Path

SHAPE = (1024, 8, 16384, 1, 64)
STEPS = 4
RUNS = [("floor", 1)] + [(v, n) for v in ("stage3", "shared3") for n in (1, 2, 4, 8)]


def growth(program: Path, variant: str, ranks: int) -> int:
    launcher = program.parent / "shardlight"
    words = [launcher, "launch", "-n", ranks, "--", program, variant, *SHAPE, STEPS, "pss"]
    done = subprocess.run(
        [str(word) for word in words], text=True, capture_output=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == ranks, done.stdout + done.stderr
    return max(line["pss_growth"] for line in lines)


def main() -> None:
    program = Path(sys.argv[1]).resolve()
    print("| variant | ranks | MB | share |")
    print("|---|---|---|---|")
    plain = None
    for variant, ranks in RUNS:
        found = growth(program, variant, ranks)
        plain = plain or found
        print(f"| {variant} | {ranks} | {found / 1e6:.0f} | {found / plain:.2f} |", flush=True)


if __name__ == "__main__":
    main()
