"""The example projects that train: built outside the tree against the installed package and its
torch, then run as two ranks."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def torch_folder() -> Path:
    return Path(importlib.util.find_spec("torch").origin).parent


@pytest.fixture(scope="module")
def build(root, installed, run, torch_folder, tmp_path_factory):
    """build("cpp"): the folder with what examples/cpp built."""

    def build_example(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(root / "examples" / name, folder / "source")
        run(
            *("cmake", "-G", "Ninja", "-S", folder / "source", "-B", folder / "build"),
            *("-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_PREFIX_PATH={installed};{torch_folder}"),
        )
        run("cmake", "--build", folder / "build")
        return folder / "build"

    return build_example


def test_the_small_program_learns(build, installed, run):
    printed = run(installed / "bin/shardlight", "launch", "-n", 2, "--", build("cpp") / "train")
    found = dict(re.findall(r"^step (\d+) loss (\S+)$", printed, re.MULTILINE))
    assert list(found) == ["100", "200", "300"]
    # The variance of a product of two uniform numbers is 1/9 - 1/16.
    assert float(found["300"]) < (1 / 9 - 1 / 16) / 20


def test_digits_are_read(build, installed, run, root, tmp_path):
    program, digits = build("digits") / "train", tmp_path / "digits.bin"
    run(sys.executable, root / "examples/digits/export.py", digits)
    printed = run(installed / "bin/shardlight", "launch", "-n", 2, "--", program, digits)
    (right,) = re.findall(r"^held out: (\S+) % right$", printed, re.MULTILINE)
    assert float(right) > 95


def test_the_installed_program_trains(installed, run, root):
    words = ("--steps", 1, "--ranks", 1)
    printed = run(installed / "bin/shardlight", "train", root / "examples/gpt.json", *words)
    assert "1 step in" in printed
