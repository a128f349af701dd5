"""Another CMake project finds, builds against and runs what `cmake --install` put somewhere."""

import importlib.util
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def example(root, installed, run, tmp_path_factory):
    """The example project, built outside the tree against the installed package."""
    folder = tmp_path_factory.mktemp("outside")
    shutil.copytree(root / "examples/find_package", folder / "source")
    run("cmake", "-G", "Ninja", "-S", folder / "source", "-B", folder / "build",
        f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", folder / "build")
    return folder / "build"


def test_the_example_runs(example, run):
    # 1000 and 100 elements lie in 16 + 2 blocks of 64; three ranks get 6, two get 9 of them.
    assert run(example / "slices") == "rank 0: 2304 bytes\nrank 1: 2304 bytes\n"
    assert run(example / "slices", "3") == "".join(f"rank {r}: 1536 bytes\n" for r in range(3))


def test_the_installed_program_runs(installed, run, root):
    version = (root / "VERSION").read_text().strip()
    assert version in run(installed / "bin/shardlight", "--version")


def test_every_installed_header_compiles_outside_the_tree(installed, run, tmp_path, tier):
    include = installed / "include"
    torch = Path(importlib.util.find_spec("torch").origin).parent / "include"
    system = ("-isystem", torch, "-isystem", torch / "torch/csrc/api/include")
    headers = sorted(path.relative_to(include) for path in include.rglob("*.h"))
    assert headers
    together = "".join(f'#include "{header}"\n' for header in headers)
    alone = [f'#include "{header}"\n' for header in headers]
    for number, text in enumerate([together] if tier == "quick" else alone):
        source = tmp_path / f"{number}.cpp"
        source.write_text(text)
        run("g++", "-std=c++20", "-fsyntax-only", "-I", include, *system, source)


def test_internal_headers_stay_at_home(installed):
    assert not list(installed.rglob("hf_values.h"))
    assert list(installed.rglob("hf_config.h"))


def test_the_sources_of_the_tree_are_not_named_in_the_package(installed, root):
    for config in installed.rglob("*.cmake"):
        assert str(root) not in config.read_text(), config
