#!/usr/bin/env python3
"""The exchange beside torch.distributed's Gloo, MPI's own collectives and the memory-copy limit.

    .venv/bin/python bench/exchange_against_others.py build/bench/bin 2 4 8

They are run in turns, size by size, and the ratios printed as a Markdown table: wall and CPU time
a rank of Gloo and of MPI over ours, and ours against copying the bytes of the all-gather. The
folder is that of the programs; without mpi_collectives_bench there, MPI's columns stay empty.
"""

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHARDS = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
ROUNDS = 5


def gloo_rank(rank: int, world: int, shard_bytes: int, meeting: str, queue) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    shard = torch.ones(shard_bytes // 4)
    whole = torch.ones(shard_bytes // 4 * world)
    calls = max(2, min(100, (1 << 26) // (shard_bytes * world)))
    kinds = {
        "all-gather": lambda: dist.all_gather_single(whole, shard),
        "reduce-scatter": lambda: dist.reduce_scatter_single(shard, whole),
    }
    for what, call in kinds.items():
        call()
        walls = []
        cpu = time.process_time()
        for _ in range(ROUNDS):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            walls.append((time.perf_counter() - begin) / calls * 1e3)
        cpu = (time.process_time() - cpu) / (calls * ROUNDS) * 1e3
        queue.put((what, statistics.median(walls), cpu))
    dist.barrier()
    dist.destroy_process_group()


def gloo(world: int, shard_bytes: int) -> dict:
    """What to (wall, CPU) milliseconds: the slowest rank's wall, the mean CPU."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        common = (world, shard_bytes, os.path.join(folder, "meeting"), queue)
        ranks = [context.Process(target=gloo_rank, args=(r, *common)) for r in range(world)]
        for rank in ranks:
            rank.start()
        found = [queue.get(timeout=120) for _ in range(2 * world)]
        for rank in ranks:
            rank.join()
    kinds = {what for what, _, _ in found}
    return {
        kind: (
            max(wall for what, wall, _ in found if what == kind),
            statistics.mean(cpu for what, _, cpu in found if what == kind),
        )
        for kind in kinds
    }


def measured(command: list[str]) -> dict:
    """What a program of ours measured: what to its line."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["what"]: line for line in lines}


def exchange(programs: Path, world: int, shard_bytes: int) -> dict:
    return measured([str(programs / "exchange_bench"), str(world), str(shard_bytes), "only"])


def mpi(programs: Path, world: int, shard_bytes: int) -> dict:
    program = programs / "mpi_collectives_bench"
    if not program.exists():
        return {}
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return measured(["mpirun", *options, "-n", str(world), str(program), str(shard_bytes)])


def ratio(theirs: float | None, ours: float) -> str:
    return "" if theirs is None else f"{theirs / ours:.1f}"


def row(
    world: int, shard_bytes: int, what: str, ours: dict, gloo_found: dict, mpi_found: dict
) -> list[str]:
    own = ours[what]
    wall, cpu = own["wall_ms"], own["cpu_ms"]
    wall_gloo, cpu_gloo = gloo_found[what]
    other = mpi_found.get(what, {})
    return [
        str(world),
        f"{shard_bytes >> 10} KiB",
        what,
        f"{wall:.4f}",
        f"{own['p50_ms']:.4f}",
        f"{cpu:.4f}",
        ratio(wall_gloo, wall),
        ratio(cpu_gloo, cpu),
        ratio(other.get("wall_ms"), wall),
        ratio(other.get("p50_ms"), own["p50_ms"]),
        ratio(other.get("cpu_ms"), cpu),
        f"{100 * ours['copy']['wall_ms'] / wall:.0f}",
    ]


COLUMNS = (
    "N,shard,what,wall ms,p50 ms,CPU ms,"
    "Gloo wall x,Gloo CPU x,MPI wall x,MPI p50 x,MPI CPU x,copy %"
)


def main() -> None:
    folder, *worlds = sys.argv[1:]
    programs = Path(folder)
    names = COLUMNS.split(",")
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for world in map(int, worlds or ["2"]):
        for shard_bytes in SHARDS:
            ours = exchange(programs, world, shard_bytes)
            found = gloo(world, shard_bytes), mpi(programs, world, shard_bytes)
            for what in ("all-gather", "reduce-scatter"):
                cells = row(world, shard_bytes, what, ours, *found)
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
