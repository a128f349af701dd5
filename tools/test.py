#!/usr/bin/env python3
"""Build and run the tests: ctest for each --preset, then pytest, and one summary of both.

The last line is `N passed, N failed, N skipped`. Above it stand the failed tests and, each with its
reason, the skipped ones. The exit code is 1 if anything failed or no test ran at all.

SHARDLIGHT_TEST_TIER says how much is run: quick (the default: 50 cases a property) or full (500
cases). C++ properties get it as RapidCheck's RC_PARAMS, unless that is set already
to reproduce a failure; Python tests read the tier by the fixture of that name. JUnit files stay in
build/junit.
"""

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JUNIT = ROOT / "build" / "junit"
CASES = {"quick": 50, "full": 500}
SECONDS_LIMIT = 900  # of one C++ test
NO_TESTS = 5  # exit code of pytest


@dataclass
class Tally:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def summary(self) -> str:
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def gtest_skip_reason(output: str) -> str:
    """What stood in GTEST_SKIP() << …, or why ctest passed the test over."""
    _, found, rest = output.partition(": Skipped\n")
    return rest.partition("[  SKIPPED ]")[0].strip() if found else output.strip()


def read_ctest(junit: Path, label: str, tally: Tally) -> None:
    """Adds the cases of ctest's JUnit file to the tally and prints the output of failed ones."""
    for case in ElementTree.parse(junit).iter("testcase"):
        name, status = f"{label}: {case.get('name')}", case.get("status")
        output = case.findtext("system-out") or ""
        skipped = case.find("skipped")
        reason = "" if skipped is None else skipped.get("message", "")
        if status == "run":
            tally.passed += 1
        elif status == "disabled" or reason.startswith("SKIP_"):
            tally.skipped.append((name, gtest_skip_reason(output)))
        else:  # failed, or not run because its program is not there
            tally.failed.append(name)
            print(f"--- {name}\n{output}")


def read_pytest(junit: Path, tally: Tally) -> None:
    """Adds the cases of pytest's JUnit file; pytest itself has shown their output."""
    for case in ElementTree.parse(junit).iter("testcase"):
        name = f"pytest: {case.get('classname')}::{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            tally.failed.append(name)
        elif skipped is not None:
            tally.skipped.append((name, skipped.get("message", "")))
        else:
            tally.passed += 1


def fixed_addresses() -> list[str]:
    """The thread sanitizer of g++ 12 fails to start where the kernel randomises more than this."""
    bits = Path("/proc/sys/vm/mmap_rnd_bits")
    many = bits.is_file() and int(bits.read_text()) > 28
    return ["setarch", "--addr-no-randomize"] if many else []


def run_ctest(preset: str, tally: Tally) -> None:
    failed_before = len(tally.failed)
    prefix = fixed_addresses() if preset == "tsan" else []
    # The build runs the test programs too, to list their cases.
    if subprocess.run([*prefix, "cmake", "--build", "--preset", preset], cwd=ROOT).returncode != 0:
        tally.failed.append(f"build {preset}")
        return
    junit = JUNIT / f"ctest-{preset}.xml"
    junit.unlink(missing_ok=True)
    command = ["ctest", "--preset", preset, "--quiet", "--parallel", str(os.cpu_count())]
    command += ["--timeout", str(SECONDS_LIMIT), "--output-junit", str(junit)]
    start = time.monotonic()
    code = subprocess.run([*prefix, *command], cwd=ROOT).returncode
    if junit.is_file():
        read_ctest(junit, preset, tally)
    if code != 0 and len(tally.failed) == failed_before:
        tally.failed.append(f"ctest --preset {preset} ended with {code}")
    print(f"ctest {preset}: {time.monotonic() - start:.1f} s")


def run_pytest(tally: Tally) -> None:
    failed_before = len(tally.failed)
    junit = JUNIT / "pytest.xml"
    junit.unlink(missing_ok=True)
    command = [ROOT / ".venv/bin/python", "-m", "pytest", "-q", f"--junitxml={junit}"]
    code = subprocess.run(command, cwd=ROOT).returncode
    if junit.is_file():
        read_pytest(junit, tally)
    if code not in (0, NO_TESTS) and len(tally.failed) == failed_before:
        tally.failed.append(f"pytest ended with {code}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--preset", action="append", help="a preset of CMakePresets.json; release")
    parser.add_argument("--no-pytest", action="store_true", help="only ctest")
    options = parser.parse_args()
    tier = os.environ.setdefault("SHARDLIGHT_TEST_TIER", "quick")
    if tier not in CASES:
        parser.error(f"SHARDLIGHT_TEST_TIER: '{tier}' is not allowed; allowed: {', '.join(CASES)}")
    os.environ.setdefault("RC_PARAMS", f"max_success={CASES[tier]}")
    JUNIT.mkdir(parents=True, exist_ok=True)
    sys.stdout.reconfigure(line_buffering=True)

    tally = Tally()
    for preset in options.preset or ["release"]:
        run_ctest(preset, tally)
    if not options.no_pytest:
        run_pytest(tally)

    for name, reason in tally.skipped:
        print(f"skipped: {name}: {reason}")
    for name in tally.failed:
        print(f"failed: {name}")
    if tally.passed + len(tally.failed) == 0:
        print("no test ran")
    print(tally.summary())
    return 0 if tally.passed and not tally.failed else 1


if __name__ == "__main__":
    sys.exit(main())
