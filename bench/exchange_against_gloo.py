#!/usr/bin/env python3
"""The exchange beside torch.distributed's Gloo and the memory-copy limit, in one run.

    .venv/bin/python bench/exchange_against_gloo.py build/bench/bin/exchange_bench 2 4 8

The two are run in turns, size by size in each, and the ratios printed as a Markdown table: wall and
CPU time a rank of Gloo over ours, and ours against copying the bytes of the all-gather.
"""

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

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
        "all-gather": lambda: dist.all_gather_into_tensor(whole, shard),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(shard, whole),
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


def exchange(program: str, world: int, shard_bytes: int) -> dict:
    done = subprocess.run(
        [program, str(world), str(shard_bytes), "only"], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["what"]: (line["wall_ms"], line["cpu_ms"]) for line in lines}


def main() -> None:
    program, *worlds = sys.argv[1:]
    names = "N,shard,what,wall ms,CPU ms,Gloo wall,Gloo CPU,wall x,CPU x,copy %".split(",")
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for world in map(int, worlds or ["2"]):
        for shard_bytes in SHARDS:
            ours = exchange(program, world, shard_bytes)
            theirs = gloo(world, shard_bytes)
            for what in ("all-gather", "reduce-scatter"):
                (wall, cpu), (wall_gloo, cpu_gloo) = ours[what], theirs[what]
                print(
                    f"| {world} | {shard_bytes >> 10} KiB | {what} | {wall:.4f} | {cpu:.4f} | "
                    f"{wall_gloo:.3f} | {cpu_gloo:.3f} | {wall_gloo / wall:.1f} | "
                    f"{cpu_gloo / cpu:.1f} | {100 * ours['copy'][0] / wall:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
