#!/usr/bin/env python3
"""The console examples in Markdown files are what the program prints, and stay so.

    tools/transcripts.py --check README.md docs   # fails, with a diff, where one is stale
    tools/transcripts.py --write README.md docs   # runs the commands and writes their output

An example is a ```console block whose first line begins with `$ shardlight`. Each line that begins
with `$ ` is a command (it goes on in the next line after a `\\`), and what follows up to the next
command is its output, both streams together. Commands run in bash in the root of the tree with
build/release/bin first on the PATH. A command may be a user's mistake (exit code 2) to show the
message; any other failure is an error here.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build" / "release" / "bin"
BLOCK = re.compile(r"^```console\n(\$ shardlight\b.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_CODES = {0, 2, 141}  # 141: `… | head` had read enough
SECONDS_LIMIT = 120


class Broken(Exception):
    """An example that cannot be run."""


def commands_of(block: str) -> list[str]:
    """The commands of a block as they stand in it: without their `$ `, with their line breaks."""
    commands, going_on = [], False
    for line in block.splitlines():
        if going_on:
            commands[-1] += "\n" + line
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            continue
        going_on = line.endswith("\\")
    return commands


def run(command: str, programs: Path) -> str:
    """What a command prints."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SHARDLIGHT_")
    }
    environment |= {"NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_LIMIT,
    )
    if done.returncode not in SHOWN_CODES:
        raise Broken(f"$ {command}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout if done.stdout.endswith("\n") or not done.stdout else done.stdout + "\n"


def rendered(markdown: str, programs: Path = PROGRAMS) -> str:
    """The page with the output of each example made anew."""

    def anew(block: re.Match) -> str:
        parts = [f"$ {command}\n{run(command, programs)}" for command in commands_of(block[1])]
        return f"```console\n{''.join(parts)}```"

    return BLOCK.sub(anew, markdown)


def pages(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = ROOT / name
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]


def stale(page: Path, programs: Path = PROGRAMS) -> str:
    """How the page differs from what is printed now; empty where it does not."""
    old = page.read_text()
    new = rendered(old, programs)
    name = os.path.relpath(page, ROOT)
    return "".join(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), name, f"{name} now"
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail where an example is stale")
    mode.add_argument("--write", action="store_true", help="write what the commands print now")
    parser.add_argument("pages", nargs="+", help="Markdown files, or folders of them")
    options = parser.parse_args()

    failed = False
    for page in pages(options.pages):
        try:
            difference = stale(page)
        except Broken as error:
            print(f"{os.path.relpath(page, ROOT)}: {error}")
            failed = True
            continue
        if difference and options.write:
            page.write_text(rendered(page.read_text()))
            print(f"{os.path.relpath(page, ROOT)}: written")
        elif difference:
            print(f"{difference}stale; make docs writes it anew")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
