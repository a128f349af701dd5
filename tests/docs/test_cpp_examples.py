"""The C++ programs in README.md and docs/ build against the installed package, and run."""

import re

import pytest
import transcripts

# A program, and the ```text block after it, which is what it prints.
PROGRAM = re.compile(
    r"^```cpp\n((?:(?!```).)*?\bint main\b.*?)^```$(?:[^`]*?^```text\n(.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
LAYER = re.compile(r'#include "shardlight/(\w+)/')

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(examples LANGUAGES CXX)
find_package(shardlight REQUIRED)
add_executable(example main.cpp)
target_link_libraries(example PRIVATE {libraries})
"""


def programs_in(markdown: str) -> list[tuple[str, str]]:
    """The programs of a page, each with the output that the page promises."""
    return PROGRAM.findall(markdown)


def build_and_run(code, folder, installed, run) -> str:
    libraries = sorted({f"shardlight::{layer}" for layer in LAYER.findall(code)})
    (folder / "main.cpp").write_text(code)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(libraries=" ".join(libraries)))
    run("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}", cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    return run("build/example", cwd=folder)


PAGES = [*transcripts.pages(["README.md", "docs"])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_the_page_run(page, tmp_path, installed, run):
    for number, (code, output) in enumerate(programs_in(page.read_text())):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert output, "a program without the text block of what it prints"
        assert build_and_run(code, folder, installed, run) == output


def test_the_readme_has_a_program(root):
    assert programs_in((root / "README.md").read_text())


GOOD = """
#include <cstdio>
#include "shardlight/base/parse_quantity.h"
int main() {
  const auto count = shardlight::parse_count("n", "7.5e9", {0, 10'000'000'000});
  std::printf("%lld", static_cast<long long>(count.value()));
}
"""


def test_an_example_is_built_and_run(tmp_path, installed, run):
    assert build_and_run(GOOD, tmp_path, installed, run) == "7500000000"


@pytest.mark.parametrize("mistake", [("parse_count", "no_such_name"), ("7.5e9", "7.5x9")])
def test_an_example_that_does_not_build_or_run_fails(mistake, tmp_path, installed, run):
    with pytest.raises(AssertionError):
        build_and_run(GOOD.replace(*mistake), tmp_path, installed, run)


def test_only_whole_programs_are_examples():
    part = "```cpp\nauto x = f();\n```\n"
    text = "It prints:\n\n```text\n7\n```\n"
    assert programs_in(f"{part}```cpp\n{GOOD}```\n{part}") == [(GOOD, "")]
    assert programs_in(f"{part}```cpp\n{GOOD}```\n{text}{part}") == [(GOOD, "7\n")]
