"""Fixtures of the package's tests: the build tree's package, and ranks that run a script of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def package(root) -> Path:
    """The folder of PYTHONPATH that holds the package as it was built."""
    folder = root / "build" / "release" / "python"
    built = folder / "shardlight" / "_engine.so"
    assert built.is_file(), f"{built} is not there; make test builds it"
    return folder


@pytest.fixture(scope="session")
def run_ranks(package, program):
    """run_ranks(n, script, words…, torchrun=False, code=0): what ranks of tests/python/SCRIPT
    print."""

    def run(ranks, script, *words, torchrun=False, code=0, timeout=300) -> str:
        start = [program, "launch", "-n", ranks, "--", sys.executable]
        if torchrun:
            start = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            start += ["--nproc-per-node", ranks]
        elif ranks == 1:
            start = [sys.executable]
        command = [str(word) for word in (*start, HERE / script, *words)]
        environment = {**os.environ, "PYTHONPATH": f"{package}:{HERE}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, env=environment, text=True, capture_output=True, timeout=timeout, check=False
        )
        printed = done.stdout + done.stderr
        assert (done.returncode == 0) == (code == 0), f"{command} -> {done.returncode}\n{printed}"
        return printed

    return run


@pytest.fixture
def nobody_launched(monkeypatch):
    """A monkeypatch, in an environment without any launcher's variables."""
    for name in list(os.environ):
        if name.startswith(("SHARDLIGHT_", "OMPI_", "PMI", "MPI_", "SLURM_", "MASTER_")):
            monkeypatch.delenv(name)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch
