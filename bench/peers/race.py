"""Shardlight beside DDP, ZeroRedundancyOptimizer, FSDP2 and DeepSpeed on the same GPT, all with
torch's fused AdamW, a thread a rank, alternated in one run; medians over rounds. Prints a table a
size and number of ranks, and writes a chart with --chart FILE.svg.

    .venv/bin/python bench/peers/race.py --sizes comm short small --ranks 2 4 --rounds 3

DeepSpeed runs where the Python of --deepspeed-python has it (bench/peers/install.sh makes one).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from chart import write_chart
from engines import ENGINES
from work import SIZES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STEPS = {"tiny": (3, 1), "comm": (6, 2), "short": (10, 3), "small": (4, 1)}  # timed, warm


def run_once(
    python: str, engine: str, size: str, ranks: int, *, steps: tuple[int, int], memory: bool = False
) -> list[dict]:
    """What each rank says; empty where it failed, with the end of its output shown."""
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command += [str(ranks), str(HERE / "rank.py"), engine, size, *map(str, steps)]
    command += ["pss"] if memory else []
    package = ROOT / "build" / "release" / "python"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE}:{package}"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"{engine} {size} on {ranks} ranks: not done in 400 s", file=sys.stderr)
        return []
    # Lines of two ranks may come as one.
    said = [json.JSONDecoder().raw_decode(x)[0] for x in done.stdout.split("RACE ")[1:]]
    if done.returncode != 0 or len(said) != ranks:
        print(f"{engine} {size} on {ranks} ranks failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return []
    return said


def row_of(engine: str, runs: list[list[dict]], memory: list[dict]) -> dict:
    """Medians over rounds of the mean over ranks; of memory the rank that grew most."""

    def median(key):
        return statistics.median(statistics.mean(rank[key] for rank in run) for run in runs)

    row = {key: median(key) for key in ("step_ms", "cpu_ms", "sent", "import_s", "start_s")}
    row["growth"] = max((rank["growth"] for rank in memory), default=None)
    row["loss"] = statistics.mean(rank["losses"][-1] for rank in runs[0])
    return {"engine": engine, **row}


def race(options, size: str, ranks: int) -> list[dict]:
    """Alternated, so that all meet the same noise."""
    runs: dict[str, list] = {engine: [] for engine in options.engines}
    memory: dict[str, list] = {engine: [] for engine in options.engines}
    for round_ in range(options.rounds + (not options.no_memory)):
        for engine in options.engines:
            python = sys.executable
            if engine.startswith("deepspeed"):
                if not options.deepspeed_python.exists():
                    continue
                python = str(options.deepspeed_python)
            last = round_ == options.rounds
            said = run_once(python, engine, size, ranks, steps=STEPS[size], memory=last)
            if last:
                memory[engine] = said
            elif said:
                runs[engine].append(said)
    return [row_of(engine, runs[engine], memory[engine]) for engine in runs if runs[engine]]


def table(rows: list[dict], size: str, ranks: int, tokens: int) -> str:
    floor = next((row for row in rows if row["engine"] == "plain"), None)
    lines = [
        f"\n{size}, {ranks} ranks\n",
        "| engine | tokens/s | step ms | CPU ms | CPU over the floor | growth MB | sent MB a step "
        "| import s | start s | loss |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        growth = "" if row["growth"] is None else f"{row['growth'] / 1e6:.0f}"
        over = "" if floor is None else f"{row['cpu_ms'] / floor['cpu_ms']:.2f}"
        speed = ranks * tokens / row["step_ms"] * 1e3
        lines.append(
            f"| {row['engine']} | {speed:.0f} | {row['step_ms']:.0f} | {row['cpu_ms']:.0f} "
            f"| {over} | {growth} | {row['sent'] / 1e6:.0f} "
            f"| {row['import_s']:.2f} | {row['start_s']:.2f} | {row['loss']:.6f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["comm", "short", "small"], choices=SIZES)
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--no-memory", action="store_true", help="leave out the sampled runs")
    parser.add_argument("--chart", type=Path)
    parser.add_argument(
        "--deepspeed-python", type=Path, default=ROOT / "build" / "peers" / "bin" / "python"
    )
    options = parser.parse_args()
    charted = []
    for size in options.sizes:
        for ranks in options.ranks:
            rows = race(options, size, ranks)
            print(table(rows, size, ranks, SIZES[size].tokens), flush=True)
            charted.append((f"{size}, {ranks} ranks", rows, ranks * SIZES[size].tokens))
            if options.chart:  # after each table, so that a race cut short has one too
                write_chart(options.chart, charted)


if __name__ == "__main__":
    main()
