"""Where ranks are and how they meet, by each launcher's variables."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "release" / "python"))

import shardlight  # noqa: E402
import torch  # noqa: E402
from shardlight import _ranks  # noqa: E402

CPU = torch.device("cpu")
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}  # fmt: skip
MPICH = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1"}
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({}, "shm"),
        ({"SHARDLIGHT_RANK": "5", "SHARDLIGHT_WORLD": "8"}, "shm"),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "8"}, "shm"),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "4"}, "c10d"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, "shm"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, "c10d"),
        (MPICH | {"MPI_LOCALNRANKS": "8"}, "shm"),
        (MPICH | {"MPI_LOCALNRANKS": "4"}, "c10d"),
        (SLURM | {"SLURM_NNODES": "1"}, "shm"),
        (SLURM | {"SLURM_NNODES": "2"}, "c10d"),
        (SLURM | {"SLURM_NNODES": "2", "SLURM_STEP_NUM_NODES": "1"}, "shm"),
    ],
)
def test_auto_is_shared_memory_on_one_host_alone(nobody_launched, said, kind):
    for name, value in said.items():
        nobody_launched.setenv(name, value)
    assert _ranks.resolved("auto", CPU) == kind
    assert _ranks.resolved("auto", torch.device("meta")) == "c10d"
    assert _ranks.resolved("shm", CPU) == "shm"
    place = _ranks.place()
    assert (place.rank, place.world) == ((5, 8) if said else (0, 1))
    assert place.rank_local == (1 if set(said) - {"SHARDLIGHT_RANK", "SHARDLIGHT_WORLD"} else
                                place.rank)  # fmt: skip


@pytest.fixture
def started(nobody_launched):
    """How torch.distributed was told to initialise."""
    calls = []
    nobody_launched.setattr(_ranks, "end_group_at_exit", lambda: None)
    nobody_launched.setattr(
        _ranks.dist, "init_process_group", lambda backend, **told: calls.append((backend, told))
    )
    return calls


def test_a_group_starts_under_each_launcher(started, nobody_launched):
    nobody_launched.setenv("SHARDLIGHT_JOB", "mine")
    for said in ({"SHARDLIGHT_RANK": "5", "SHARDLIGHT_WORLD": "8"}, OPEN_MPI, SLURM):
        with nobody_launched.context() as variables:
            for name, value in said.items():
                variables.setenv(name, value)
            _ranks.start_group("gloo")
        backend, told = started.pop()
        assert (backend, told["rank"], told["world_size"]) == ("gloo", 5, 8)
        assert told["init_method"].startswith("file://")
        assert told["init_method"].endswith("shardlight-mine")


def test_a_port_counts_where_none_is_set(started, nobody_launched):
    nobody_launched.setenv("MASTER_PORT", "1")  # so that it is taken away afterwards
    del os.environ["MASTER_PORT"]
    nobody_launched.setenv("MASTER_ADDR", "localhost")
    _ranks.start_group("gloo", rank=1, world=2, port=1234)
    _ranks.start_group("gloo", rank=1, world=2, port=5678)
    assert os.environ["MASTER_PORT"] == "1234"
    assert started[0][1]["init_method"] == "env://"
    assert (started[0][1]["rank"], started[0][1]["world_size"]) == (1, 2)


def test_ranks_that_cannot_meet_are_told_what_is_missing(started, nobody_launched):
    for name, value in (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}).items():
        nobody_launched.setenv(name, value)
    for job in (None, "mine"):  # a file would be on one host only
        if job:
            nobody_launched.setenv("SHARDLIGHT_JOB", job)
        with pytest.raises(shardlight.UserError) as caught:
            _ranks.start_group("gloo")
        assert caught.value.field == "MASTER_ADDR"
    assert not started


def test_ranks_of_shardlight_launch_meet_over_c10d(run_ranks):
    printed = run_ranks(2, "over_c10d.py")
    assert printed.count("equal over c10d") == 2, printed
