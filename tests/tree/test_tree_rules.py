"""This tree keeps the rules of tools/tree_rules.py, and each rule finds what it is there for."""

import pytest
import tree_rules
from tree_rules import (
    check_architecture,
    check_environment,
    check_headers,
    check_layers,
    check_pure,
    check_sizes,
    check_torch,
    check_unfinished,
)

COMMENT = "// What it is for,\n// and what it is not.\n"
HEADER = COMMENT + "#pragma once\n"
LONG_FUNCTION = "def f():\n" + "    pass\n" * 60


@pytest.mark.parametrize("rule", tree_rules.RULES, ids=lambda rule: rule.__name__)
def test_this_tree_keeps_the_rule(rule, root):
    found = rule(root)
    assert not found, "\n" + "\n".join(found)


def made_up(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return root


BROKEN = [
    (check_layers, "shardlight/base/a.cpp", '#include "shardlight/layout/b.h"'),
    (check_layers, "shardlight/layout/a.h", '#  include "shardlight/plan/b.h"'),
    (check_layers, "shardlight/plan/a.h", '#include "shardlight/telemetry/log.h"'),
    (check_layers, "shardlight/layout/a.h", '#include "shardlight/telemetry/log.h"'),
    (check_layers, "shardlight/base/a.h", '#include "shardlight/telemetry/log.h"'),
    (check_layers, "shardlight/telemetry/a.h", '#include "shardlight/layout/b.h"'),
    (check_layers, "shardlight/model/a.h", '#include "shardlight/data/b.h"'),
    (check_layers, "shardlight/engine/a.h", '#include "shardlight/cli/b.h"'),
    (check_layers, "shardlight/comm/threads/a.cpp", '#include "shardlight/io/b.h"'),
    (check_layers, "shardlight/io/a.h", '#include "shardlight/nowhere/b.h"'),
    (check_layers, "shardlight/nowhere/a.h", ""),
    (check_layers, "shardlight/io/a.cpp", '#include "file.h"'),
    (check_layers, "shardlight/io/a.cpp", "#include <shardlight/base/error.h>"),
    (check_torch, "shardlight/checkpoint/a.h", "#include <torch/torch.h>"),
    (check_torch, "shardlight/base/a.h", "#include <ATen/core/Tensor.h>"),
    (check_torch, "shardlight/comm/c10d/a.cpp", "#include <c10/util/Half.h>"),
    (check_pure, "shardlight/base/a.cpp", "void f() { throw 1; }"),
    (check_pure, "shardlight/layout/a.cpp", "#include <thread>"),
    (check_pure, "shardlight/layout/a.cpp", "#include <mutex>"),
    (check_pure, "shardlight/plan/a.cpp", "#include <fstream>"),
    (check_pure, "shardlight/plan/a.cpp", "# include <filesystem>"),
    (check_pure, "shardlight/plan/a.cpp", "#include <iostream>"),
    (check_pure, "shardlight/plan/a.cpp", "#include <spdlog/spdlog.h>"),
    (check_environment, "shardlight/cli/a.cpp", 'auto x = std::getenv("HOME");'),
    (check_environment, "shardlight/io/a.cpp", "char** x = environ;"),
    (check_headers, "shardlight/io/a.h", "#pragma once\n"),
    (check_headers, "shardlight/io/a.h", "// One line.\n#pragma once\n"),
    (check_headers, "shardlight/io/a.h", "//\n" * 9 + "#pragma once\n"),
    (check_headers, "tests/io/a.h", COMMENT),
    (check_headers, "shardlight/io/a.h", COMMENT + "\n#pragma once\n"),
    (check_sizes, "tests/io/a.cpp", "\n" * 401),
    (check_sizes, "tools/a.sh", "x" * 101),
    (check_sizes, ".ci/run", "x" * 101),
    (check_sizes, "cmake/CMakeLists.txt", "x" * 101),
    (check_sizes, "tools/a.py", LONG_FUNCTION),
    (check_unfinished, "shardlight/io/a.cpp", "// TO" + "DO: later"),
    (check_unfinished, "tools/a.py", "# FIX" + "ME"),
    (check_unfinished, "Makefile", "# X" + "XX"),
    (check_architecture, "shardlight/io/a.cpp", ""),
]


@pytest.mark.parametrize(("rule", "name", "text"), BROKEN)
def test_the_rule_finds(rule, name, text, tmp_path):
    (violation,) = rule(made_up(tmp_path, name, text))
    assert violation.startswith(f"{name if rule is not check_architecture else 'docs'}"), violation


KEPT = [
    (check_layers, "shardlight/plan/a.h", '#include "shardlight/base/b.h"\n#include <vector>'),
    (check_layers, "shardlight/plan/a.h", '#include "shardlight/plan/b.h"'),
    (check_layers, "shardlight/memory/a.h", '#include "shardlight/telemetry/log.h"'),
    (check_layers, "shardlight/telemetry/a.h", '#include "shardlight/base/error.h"'),
    (check_layers, "shardlight/cli/a.cpp", '#include "shardlight/model/a.h"'),
    (check_layers, "shardlight/base/a.h", '// #include "shardlight/cli/a.h"'),
    (check_layers, "tests/base/a.cpp", '#include "shardlight/cli/a.h"'),
    (check_torch, "shardlight/engine/a.cpp", "#include <ATen/core/Tensor.h>"),
    (check_torch, "shardlight/python/a.cpp", "#include <torch/extension.h>"),
    (check_pure, "shardlight/base/a.cpp", "/* we never\n throw */ int x; // throw, <thread>"),
    (check_pure, "shardlight/io/a.cpp", "#include <fstream>\nvoid f() { throw 1; }"),
    (check_environment, "shardlight/base/environment.cpp", "char** x = environ;"),
    (check_environment, "shardlight/io/a.cpp", "struct Environment; // no getenv here"),
    (check_headers, "shardlight/io/a.h", HEADER),
    (check_headers, "shardlight/io/a.cpp", ""),
    (check_sizes, "tools/a.sh", ("x" * 100 + "\n") * 400),
    (check_sizes, "tools/a.sh", "…" * 100),
    (check_sizes, "tools/a.py", LONG_FUNCTION.replace("    pass\n", "", 1)),
    (check_sizes, "docs/a.md", "x" * 101),
    (check_sizes, "build/a.cpp", "x" * 101),
    (check_sizes, ".venv/a.py", "x" * 101),
    (check_unfinished, "tools/a.sh", "mktemp /tmp/a.XXXXXX"),
]


@pytest.mark.parametrize(("rule", "name", "text"), KEPT)
def test_the_rule_lets_pass(rule, name, text, tmp_path):
    assert rule(made_up(tmp_path, name, text)) == []


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ("Files are read in `io`.", True),
        ("Files are read in shardlight/io.", True),
        ("The folder `io/`.", True),
        ("I/O stands in the radio.", False),
    ],
)
def test_the_architecture_page_names_folders(page, named, tmp_path):
    made_up(tmp_path, "shardlight/io/a.cpp", "")
    made_up(tmp_path, "docs/architecture.md", page)
    assert (check_architecture(tmp_path) == []) == named


def test_literals_hide_no_code_and_comments_hide_none_after_them():
    code = "auto a = \"//\"; throw 1; // b\nchar c = '\"'; // throw\nR\"x(/*)x\" throw /* d\n */ e"
    kept = tree_rules.without_comments(code).splitlines()
    assert [line.count("throw") for line in kept] == [1, 0, 1, 0]
    assert len(kept) == len(code.splitlines())
