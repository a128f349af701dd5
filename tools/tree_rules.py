#!/usr/bin/env python3
"""The habits of the tree that a program can check: layers, sizes, header comments, words.

Each rule takes the root of a tree and returns its violations as `path:line: what`. Run as a program
it checks this tree by all of them; tests/tree does so too, and tries each rule on made-up trees.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# A folder of shardlight/ may include itself and folders of lower level.
LEVELS = [
    ["base"],
    ["layout", "telemetry"],
    ["plan"],
    ["memory"],
    ["comm"],
    ["io"],
    ["checkpoint"],
    ["engine"],
    ["model", "data"],
    ["cli", "python"],
]
LEVEL = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}

# These also compile to WebAssembly: they return errors, and neither log, nor read files, nor start
# threads.
PURE = ["base", "layout", "plan"]
IMPURE = re.compile(
    r"\bthrow\b|#\s*include\s*<(?:thread|mutex|fstream|filesystem|iostream|spdlog/[^>]*)>"
)
TORCH = re.compile(r"#\s*include\s*[<\"](?:torch|ATen|c10)/")
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\b|\benviron\b")
ENVIRONMENT_FILE = "shardlight/base/environment.cpp"

FILE_LINES = 400
LINE_COLUMNS = 100
FUNCTION_LINES = 60  # of Python; clang-tidy counts those of C++
HEADER_COMMENT_LINES = range(2, 9)
# Split, so that this file does not break its own rule.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")

CODE_SUFFIXES = {".h", ".cpp", ".py", ".sh", ".cmake"}
CODE_NAMES = {"CMakeLists.txt", "Makefile", ".ci/run"}


def files(root: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of each file of ours that is code; not what is built, installed or fetched."""
    for folder, inner, names in os.walk(root):
        top = Path(folder) == root
        inner[:] = sorted(
            x for x in inner if (x[0] != "." or x == ".ci") and not (top and x == "build")
        )
        for path in (Path(folder, name) for name in sorted(names)):
            name = str(path.relative_to(root))
            if path.suffix in CODE_SUFFIXES or path.name in CODE_NAMES or name in CODE_NAMES:
                yield name, path


def engine_files(root: Path) -> Iterator[tuple[str, str, str]]:
    """Name, folder in shardlight/ and code without comments of each C++ file of the engine."""
    for name, path in files(root):
        parts = name.split("/")
        if parts[0] == "shardlight" and len(parts) > 2 and path.suffix in {".h", ".cpp"}:
            yield name, parts[1], without_comments(path.read_text())


def without_comments(code: str) -> str:
    """C++ code with its comments taken out and its literals kept, line for line."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
        r"'(?:\\.[^'\n]*|[^'\\\n])'",
        re.DOTALL,
    )
    return token.sub(lambda m: "\n" * m[0].count("\n") if m[0][0] == "/" else m[0], code)


def lines_that(pattern: re.Pattern, name: str, text: str, what: str) -> list[str]:
    numbered = enumerate(text.splitlines(), start=1)
    return [f"{name}:{n}: {m[0]}: {what}" for n, line in numbered if (m := pattern.search(line))]


def check_layers(root: Path) -> list[str]:
    """A folder includes only folders to its left, by the full path."""
    found = []
    quoted = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(shardlight/[^>]+)>)')
    for name, folder, code in engine_files(root):
        if folder not in LEVEL:
            found.append(f"{name}:1: {folder} has no place in the order of layers")
            continue
        for number, line in enumerate(code.splitlines(), start=1):
            if not (match := quoted.match(line)):
                continue
            parts = (match[1] or match[2]).split("/")
            if parts[0] != "shardlight" or match[2]:
                found.append(f'{name}:{number}: include our headers as "shardlight/folder/…"')
            elif parts[1] != folder and LEVEL.get(parts[1], len(LEVELS)) >= LEVEL[folder]:
                found.append(f"{name}:{number}: {folder} may not include {parts[1]}")
            elif folder in PURE and parts[1] == "telemetry":
                found.append(f"{name}:{number}: {folder} may not log")
    return found


def check_torch(root: Path) -> list[str]:
    """Nothing left of the engine includes torch."""
    found = []
    for name, folder, code in engine_files(root):
        if LEVEL.get(folder, 0) < LEVEL["engine"]:
            found += lines_that(TORCH, name, code, "only the engine and what is right of it may")
    return found


def check_pure(root: Path) -> list[str]:
    found = []
    for name, folder, code in engine_files(root):
        if folder in PURE:
            found += lines_that(IMPURE, name, code, f"not in {folder}, which is WebAssembly too")
    return found


def check_environment(root: Path) -> list[str]:
    found = []
    for name, _, code in engine_files(root):
        if name != ENVIRONMENT_FILE:
            found += lines_that(ENVIRONMENT, name, code, "take an Environment instead")
    return found


def check_headers(root: Path) -> list[str]:
    """A header starts with a comment that says what it is for, then #pragma once."""
    found = []
    for name, path in files(root):
        if path.suffix != ".h":
            continue
        lines = path.read_text().splitlines()
        comment = next((n for n, x in enumerate(lines) if not x.startswith("//")), len(lines))
        if comment not in HEADER_COMMENT_LINES:
            found.append(f"{name}:1: starts with {comment} lines of comment; allowed: 2 to 8")
        if "#pragma once" not in lines[comment : comment + 1]:
            found.append(f"{name}:{comment + 1}: #pragma once must follow the first comment")
    return found


def check_sizes(root: Path) -> list[str]:
    found = []
    for name, path in files(root):
        text = path.read_text()
        lines = text.splitlines()
        if len(lines) > FILE_LINES:
            found.append(f"{name}:{len(lines)}: a file has at most {FILE_LINES} lines")
        for number, line in enumerate(lines, start=1):
            if len(line) > LINE_COLUMNS:
                found.append(f"{name}:{number}: {len(line)} columns; allowed: {LINE_COLUMNS}")
        if path.suffix == ".py":
            found += long_functions(name, text)
    return found


def long_functions(name: str, python: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(python)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES:
                what = f"{node.name} has {lines} lines; allowed: {FUNCTION_LINES}"
                found.append(f"{name}:{node.lineno}: {what}")
    return found


def check_unfinished(root: Path) -> list[str]:
    found = []
    for name, path in files(root):
        found += lines_that(UNFINISHED, name, path.read_text(), "finish it or file an issue")
    return found


def check_architecture(root: Path) -> list[str]:
    """docs/architecture.md names every folder of shardlight/, as `folder` or shardlight/folder."""
    page = root / "docs/architecture.md"
    if not page.is_file():
        return ["docs/architecture.md:1: is missing"]
    text = page.read_text()
    folders = sorted(path.name for path in (root / "shardlight").iterdir() if path.is_dir())
    return [
        f"docs/architecture.md:1: does not name the folder {folder}"
        for folder in folders
        if not re.search(rf"`{folder}/?`|\bshardlight/{folder}\b", text)
    ]


RULES = [
    check_layers,
    check_torch,
    check_pure,
    check_environment,
    check_headers,
    check_sizes,
    check_unfinished,
    check_architecture,
]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    found = [violation for rule in RULES for violation in rule(root)]
    print("\n".join(found) or f"{len(RULES)} rules hold in {len(list(files(root)))} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
