"""What the Python tests of plan ask: the program dump_model."""

import json
import subprocess

import pytest


@pytest.fixture(scope="session")
def dump(root):
    """dump("config", path): (the model's line, its parameters' lines), or the error's text."""
    path = root / "build" / "release" / "bin" / "dump_model"
    assert path.is_file(), f"{path} is not there; make build makes it"

    def dump_model(kind, what):
        done = subprocess.run([path, kind, what], text=True, capture_output=True, check=False)
        if done.returncode == 2:
            return done.stderr
        assert done.returncode == 0, f"{what}: {done.returncode} {done.stderr}"
        first, *rows = map(json.loads, done.stdout.splitlines())
        return first, rows

    return dump_model
