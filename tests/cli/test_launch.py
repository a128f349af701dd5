"""`shardlight launch`: places, output, signals, and that nothing of a job outlives it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIMIT = 60  # seconds; a launch that hangs is killed and fails


def launch(program, *words, ranks=3, code=""):
    command = [program, "launch", "-n", str(ranks), *words, "--", sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)


RANK = "import os, signal, sys, time; rank = int(os.environ['SHARDLIGHT_RANK']); "


def test_each_rank_knows_its_place_and_all_know_the_job(program):
    code = (
        RANK + "e = os.environ; "
        "sys.stdout.write(f'{rank} {e[\"SHARDLIGHT_WORLD\"]} {e[\"SHARDLIGHT_JOB\"]}\\n')"
    )
    done = launch(program, code=code)
    lines = sorted(line.split() for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert done.stderr == ""
    assert [line[:2] for line in lines] == [["0", "3"], ["1", "3"], ["2", "3"]]
    assert len({line[2] for line in lines}) == 1
    assert lines[0][2] != sorted(launch(program, code=code).stdout.splitlines())[0].split()[2]


@pytest.mark.parametrize("given", [None, "7"])
def test_ranks_share_the_cores_unless_told_otherwise(program, given, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    code = "import os, sys; sys.stdout.write(os.environ['OMP_NUM_THREADS'] + '\\n')"
    done = launch(program, code=code, ranks=2)
    share = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert done.stdout.split() == [given or share] * 2


def test_prefixes_stand_before_each_line_of_both_streams(program):
    code = RANK + "print('a\\n'); print('b', end=''); print('c', file=sys.stderr)"
    done = launch(program, "--prefix", code=code, ranks=2)
    lines = done.stdout.splitlines()
    for rank in (0, 1):
        assert [x for x in lines if x.startswith(f"[{rank}] ")] == [
            f"[{rank}] a",
            f"[{rank}] ",
            f"[{rank}] b",
        ]
    assert sorted(done.stderr.splitlines()) == ["[0] c", "[1] c"]


def test_output_goes_to_a_file_a_rank(program, tmp_path):
    code = RANK + "print('out', rank, flush=True); print('err', rank, file=sys.stderr)"
    done = launch(program, "--output", tmp_path / "logs", code=code, ranks=2)
    assert (done.stdout, done.stderr) == ("", "")
    for rank in (0, 1):
        assert (tmp_path / f"logs/rank{rank}.log").read_text() == f"out {rank}\nerr {rank}\n"


@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        ("sys.exit(7)", 7, "rank 1 exited with code 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "rank 1 died of SIGKILL"),
        ("os.abort()", 134, "rank 1 died of SIGABRT"),
    ],
)
def test_a_rank_that_dies_ends_the_others_within_a_second(program, end, code, says):
    # The others ignore a request to end, so they have to be made to.
    others = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    when = f"exec('''if rank == 1: {end}\nelse: {others}''')"
    start = time.monotonic()
    done = launch(program, code=RANK + when)
    took = time.monotonic() - start
    assert done.returncode == code
    assert done.stderr == f"shardlight launch: {says}\n"
    assert took < 1 + 4  # and what three interpreters take to start on a busy machine


def alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until_gone(processes):
    end = time.monotonic() + LIMIT
    while any(alive(process) for process in processes):
        assert time.monotonic() < end, f"still there: {processes}"
        os.sched_yield()


def started(program, code, ranks=2):
    """A launch whose ranks print numbers of processes, one a line, and those."""
    command = [program, "launch", "-n", str(ranks), "--", sys.executable, "-uc", RANK + code]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return running, [int(running.stdout.readline()) for _ in range(ranks)]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on(program, sent):
    code = (
        "end = lambda *_: sys.exit(5); signal.signal(signal.SIGINT, end); "
        "signal.signal(signal.SIGTERM, end); os.write(1, b'%d\\n' % os.getpid()); time.sleep(1000)"
    )
    running, ranks = started(program, code)
    running.send_signal(sent)
    running.communicate(timeout=LIMIT)
    assert running.returncode == 5
    wait_until_gone(ranks)


def test_ranks_die_with_the_launcher(program):
    running, ranks = started(program, "os.write(1, b'%d\\n' % os.getpid()); time.sleep(1000)")
    running.kill()
    running.communicate(timeout=LIMIT)
    wait_until_gone(ranks)


def test_what_a_rank_leaves_running_is_ended(program):
    code = (
        "import subprocess; child = subprocess.Popen(['sleep', '1000'], stdout=2); "
        "os.write(1, b'%d\\n' % child.pid); sys.exit(0)"
    )
    running, children = started(program, code)
    running.communicate(timeout=LIMIT)
    assert running.returncode == 0
    wait_until_gone(children)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-n", "2"], "program: is missing"),
        (["--", "true"], "--ranks: is missing"),
        (["-n", "0", "--", "true"], "--ranks: '0' is not allowed"),
        (["-n", "1025", "--", "true"], "--ranks: '1025' is not allowed"),
        (["-n", "2", "--", "/no/such/program"], "program: '/no/such/program' is not allowed"),
        (["-n", "2", "--output", "/dev/null/x", "--", "true"], "--output: '/dev/null/x'"),
        (["-n", "2", "--output", "x", "--prefix", "--", "true"], "--prefix"),
        (["-n", "2", "--nonsense", "--", "true"], "option: '--nonsense'"),
    ],
)
def test_mistakes_are_named(program, words, says):
    done = subprocess.run(
        [program, "launch", *words], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"shardlight: {says}")


def test_help_and_exit_codes(program):
    done = subprocess.run([program, "launch", "--help"], capture_output=True, text=True, check=True)
    assert "--prefix" in done.stdout
    assert "--output" in done.stdout
    assert launch(program, code="").returncode == 0
