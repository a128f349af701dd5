"""Fixtures of every Python test: where the tree, the program and the installed package are."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tier() -> str:
    """quick or full, as in tools/test.py."""
    return os.environ.get("SHARDLIGHT_TEST_TIER", "quick")


@pytest.fixture(scope="session")
def program() -> Path:
    """The shardlight program of `make build`. Its absence is a failure, not a skip."""
    path = BUILD / "bin" / "shardlight"
    assert path.is_file(), f"{path} is not there; make build makes it"
    return path


@pytest.fixture(scope="session")
def run():
    """run(command, …, cwd=None): its standard output; a failure shows all that it printed."""

    def run_command(*command, cwd=None) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=cwd, text=True, capture_output=True, check=False)
        printed = done.stdout + done.stderr
        assert done.returncode == 0, f"{' '.join(words)} -> {done.returncode}\n{printed}"
        return done.stdout

    return run_command


@pytest.fixture(scope="session")
def installed(tmp_path_factory, run) -> Path:
    """A prefix into which the release build was installed."""
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix
