#!/usr/bin/env python3
"""The tests of the c10d transport: ranks as processes, of a process group of torch.distributed.

    ranks.py FOLDER suite RANKS | faults | subgroups | training

FOLDER holds the module shardlight_c10d_tests. torch is imported once, then each rank is forked.
Exits with 0 when all is well, else prints what each rank said.
"""

import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, sys.argv[1])
import shardlight_c10d_tests as tests  # noqa: E402

LIMIT = timedelta(seconds=120)
# Where ranks are at different calls at the same time, which these ranks may not.
IN_DIFFERENT_ORDERS = "Worlds/Sums.AreOverwrittenOnlyWhenEveryRankHasReleasedThem*"

# By case: how many ranks, the one that says nothing (or None), and what the others say.
LAST = -1
FAULTS = {
    "call": (3, None, {
        0: r"rank 0, unit h.0, gather: rank 2 calls reduce of h.1, fresh round 0 as call 3; "
           r"this rank calls gather of h.0, version 0 as call 3",
        2: r"rank 2, unit h.1, reduce: rank 0 calls gather of h.0, version 0 as call 3; this rank",
    }),
    "size": (2, None, {
        0: r"rank 0, all-reduce: rank 1 calls all-reduce \(sum\) of 24 bytes as call 2; this rank "
           r"calls all-reduce \(sum\) of 16 bytes",
        1: r"rank 1, all-reduce: rank 0 calls all-reduce \(sum\) of 16 bytes",
    }),
    "units": (2, None, {
        0: r"rank 0, connect: rank 1 calls connect with units of fingerprint \w+, staging of \d+ "
           r"bytes as call 1; this",
        1: r"rank 1, connect: rank 0 calls connect with units of fingerprint",
    }),
    "staging": (2, None, {
        0: r"rank 0, connect: rank 1 calls connect .*staging of 1048576 bytes as call 1; this rank "
           r"calls connect .*staging of 4194304 bytes",
        1: r"rank 1, connect: rank 0 calls connect with units",
    }),
    "held": (2, None, dict.fromkeys(
        range(2), r"group: 'one that a transport of this process has' is not allowed")),
    "again": (2, None, {
        0: r"rank 0, connect: rank 1 does not connect: h.1.slices: '-1' is not allowed",
        1: r"h.1.slices: '-1' is not allowed",
    }),
    "store": (2, None, {
        0: r"rank 0, send: the message was not taken, and the store of the ranks fails.*Broken",
        1: r"rank 1, receive: the message did not come, and the store of the ranks fails.*Broken",
    }),
    "sender": (2, None, {
        0: r"rank 0, send: rank 0 sends 64 bytes, rank 1 receives 32, as rank 1 found in receive",
        1: r"rank 1, receive: rank 0 sends 64 bytes, rank 1 receives 32",
    }),
    "receiver": (2, None, {
        0: r"rank 0, receive: rank 1 calls reduce of h.1, fresh round 0 as call 2; this rank",
        1: r"rank 1, receive: rank 0 calls gather of h.0, version 0 as call 2; this rank",
    }),
    "early": (2, None, {
        0: r"rank 0, unit h.1, gather: rank 1 gathers version 3 before it has published it; it has "
           r"version 0",
        1: r"rank 1, unit h.1, gather: rank 1 gathers version 3 before",
    }),
    "connect": (3, LAST, {
        0: r"rank 0, connect: rank 2 did not come within 0.5 s",
        1: r"rank 1, connect: rank 2 did not come within 0.5 s",
    }),
    "absent": (3, LAST, {
        0: r"rank 0, unit h.1, gather: rank 2 did not come within 0.5 s(.|\n)*2  active  in no",
        1: r"rank 1, unit h.1, gather: rank 2 did not come within 0.5 s",
    }),
    "gather": (3, LAST, {
        0: r"rank 0, unit h.0, gather: rank 2 \(process \d+\) died",
        1: r"rank 1, unit h.0, gather: rank 2 \(process \d+\) died",
    }),
    "reduce": (3, LAST, {
        0: r"rank 0, unit h.0, reduce: rank 2 \(process \d+\) died",
        1: r"rank 1, unit h.0, reduce: rank 2 \(process \d+\) died",
    }),
    "host": (3, 0, {
        1: r"rank 1, unit h.0, gather: rank 0 \(process \d+\) died",
        2: r"rank 2, unit h.0, gather: rank 0 \(process \d+\) died",
    }),
    "lanes": (2, None, {
        rank: r"prefetch_bytes(.|\n)*one-sided(.|\n)*bucket_bytes(.|\n)*one-sided"
        for rank in range(2)
    }),
    "experts": (2, None, {
        0: r"rank 0, unit .*rank 1 calls .* as call \d+; this rank calls",
        1: r"rank 1, unit .*rank 0 calls .* as call \d+; this rank calls",
    }),
}  # fmt: skip


def be_rank(rank: int, world: int, store: dist.Store, body: Callable[[], str]) -> str:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=LIMIT)
    own = dist.PrefixStore("tests", store)
    tests.meet(rank, world, own, lambda: dist.new_group(backend="gloo", timeout=LIMIT))
    return body()


def tcp_store(world: int, listener: socket.socket, serves: bool) -> dist.Store:
    """Of a socket that listens already, so no other process has taken the port."""
    host, port = listener.getsockname()
    descriptor = listener.detach() if serves else None
    return dist.TCPStore(
        host, port, world, serves, LIMIT, wait_for_workers=False, master_listen_fd=descriptor
    )


def fork(body: Callable[[], str], said: Path) -> int:
    """A process that leaves what `body` says in `said`."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        said.write_text(body())
        code = 0
    except BaseException as error:
        said.write_text(f"{type(error).__name__}: {error}")
    finally:
        sys.stdout.flush()
        os._exit(code)


def run_ranks(world: int, body: Callable[[], str], store_of: str = "host") -> list[tuple[str, int]]:
    """By rank, what it said and its wait status. The store is a file, a process's or rank 0's."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(world)

        def rank_body(rank: int) -> str:
            if store_of == "file":
                store = dist.FileStore(f"{folder}/store", world)
            else:
                store = tcp_store(world, listener, store_of == "rank 0" and rank == 0)
            return be_rank(rank, world, store, body)

        def host_body() -> str:
            store = tcp_store(world, listener, True)
            signal.pause()
            return str(store)

        host = fork(host_body, Path(folder, "host")) if store_of == "host" else 0
        said = [Path(folder, str(rank)) for rank in range(world)]
        children = [fork(lambda rank=rank: rank_body(rank), said[rank]) for rank in range(world)]
        listener.close()
        ends = [end_of(child, time.monotonic() + LIMIT.total_seconds()) for child in children]
        if host:
            end_of(host, 0)
        return [(s.read_text() if s.exists() else "", e) for s, e in zip(said, ends, strict=True)]


def end_of(child: int, limit: float) -> int:
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


def suite(world: int) -> list[str]:
    full = os.environ.get("SHARDLIGHT_TEST_TIER") == "full"
    if world > 4 and not full:
        print("c10d: Skipped\nmore ranks than 4 are for the full tier")
        return []
    without = IN_DIFFERENT_ORDERS + ("" if full else ":*OfLargeUnits*")
    ranks = run_ranks(world, lambda: str(tests.run_tests(f"Worlds/*-{without}")))
    return [f"rank {r}: {said} ({status})" for r, (said, status) in enumerate(ranks) if said != "0"]


def faults() -> list[str]:
    wrong = []
    for name, (world, silent, expected) in FAULTS.items():
        began = time.monotonic()
        store_of = {"host": "rank 0", "absent": "file", "gather": "file"}.get(name, "host")
        ranks = run_ranks(world, lambda name=name: tests.fault(name), store_of)
        took = time.monotonic() - began
        print(f"{name}: {took:.1f} s", flush=True)
        for rank, (said, status) in enumerate(ranks):
            if silent is not None and rank == silent % world:
                continue
            if status != 0 or (rank in expected and not re.match(expected[rank], said)):
                wrong.append(f"{name}, rank {rank} ({status}): {said}")
        if took > 20:
            wrong.append(f"{name} took {took:.1f} s")
    return wrong


def subgroups() -> list[str]:
    """Groups of some of the ranks, whose ranks have other numbers there, and one store for all."""

    def one_of_two() -> str:
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        own = dist.get_rank() % 2
        store = dist.distributed_c10d._get_default_store()
        tests.meet(dist.get_rank(groups[own]), 2, store, lambda: groups[own])
        said = [tests.fault(f"subgroup {own}") for _ in range(20)]
        return "\n".join(s for s in said if s)

    return [f"rank {r}: {s} ({e})" for r, (s, e) in enumerate(run_ranks(4, one_of_two)) if s or e]


def training() -> list[str]:
    def all_stages() -> str:
        said = [(stage, tests.train("mlp", stage)) for stage in range(4)]
        said += [(stage, tests.refresh(stage)) for stage in range(4)]
        return "".join(f"stage {stage}: {wrong}\n" for stage, wrong in said if wrong)

    return [f"rank {r}: {s} ({e})" for r, (s, e) in enumerate(run_ranks(2, all_stages)) if s or e]


def main() -> int:
    what = sys.argv[2]
    bodies = {"faults": faults, "subgroups": subgroups, "training": training}
    wrong = suite(int(sys.argv[3])) if what == "suite" else bodies[what]()
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
