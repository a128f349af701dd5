"""A rank of one run of the race: ENGINE SIZE STEPS WARM [pss]. Each rank prints one JSON object."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from engines import ENGINES, import_seconds, said, start_ranks
from torch.utils._python_dispatch import TorchDispatchMode
from work import SIZES, MemoryPeak, batch, proportional_bytes


class Sent(TorchDispatchMode):
    """Bytes that c10d's collectives send a rank, by the ring's formula."""

    def __init__(self, world: int):
        super().__init__()
        self.share, self.bytes = (world - 1) / world, 0.0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace in ("c10d", "_c10d_functional"):
            name = function._schema.name
            factor = 2 if "allreduce" in name else 0 if "wait" in name or "barrier" in name else 1
            self.bytes += factor * self.share * max(map(_bytes, args), default=0)
        return function(*args, **(kwargs or {}))


def _bytes(argument) -> int:
    if isinstance(argument, torch.Tensor):
        return argument.nbytes
    return sum(map(_bytes, argument)) if isinstance(argument, (list, tuple)) else 0


def main() -> None:
    name, size, steps, warm = sys.argv[1], SIZES[sys.argv[2]], int(sys.argv[3]), int(sys.argv[4])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    result = {"engine": name, "size": sys.argv[2], "rank": rank, "world": world}
    result["import_s"] = import_seconds(name)
    start_ranks(name)
    before, peak = proportional_bytes(), MemoryPeak() if "pss" in sys.argv[5:] else None
    if peak:
        peak.start()
    start = time.perf_counter()
    engine = ENGINES[name](size)
    result["start_s"] = time.perf_counter() - start
    losses = [engine.step(*batch(size, rank, step)).item() for step in range(warm)]
    sent = engine.sent() if hasattr(engine, "sent") else 0
    times, cpu = [], time.process_time()
    for step in range(warm, warm + steps):
        start = time.perf_counter()
        losses.append(engine.step(*batch(size, rank, step)).item())
        times.append(time.perf_counter() - start)
    result["cpu_ms"] = 1e3 * (time.process_time() - cpu) / steps
    result["step_ms"] = 1e3 * statistics.median(times)
    if peak:
        result["growth"] = peak.stop() - before
    if hasattr(engine, "sent"):
        result["sent"] = (engine.sent() - sent) / steps
    else:
        with Sent(world) as counted:
            engine.step(*batch(size, rank, warm + steps))
        result["sent"] = counted.bytes
    result["losses"] = losses
    print(said(result), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
