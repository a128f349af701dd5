"""`shardlight train` as a user runs it: the same bits at every stage, transport and launcher, a
summary that agrees with the ledger, clean ends."""

import functools
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess

import pytest

LIMIT = 120  # seconds; a run that hangs is killed and fails
ADDRESSES = 32 << 30  # bytes; enough for torch and a small model

TINY = {
    "model": {"layers": 2, "heads": 2, "hidden": 32},
    "data": {"held_out_sequences": 6},
    "batch": {"micro_batch": 2, "sequence": 32, "accumulation": 2},
    "schedule": {"warmup": 2},
    "zero": {
        "reduce": "every-micro-step",
        "order": "linear",
        "clip_norm": 1.0,
        "unit_bytes": "16 KiB",
    },
    "steps": 8,
    "log_every": 1,
    "sample": {"tokens": 8},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "tiny.json"
    path.write_text(json.dumps(TINY))
    return path


@pytest.fixture(scope="module")
def train(program, config):
    """train("--stage", 3, …): the finished process; the same words are run once."""

    @functools.cache
    def run(*words, before=(), environment=()):
        command = [*before, program, "train", config, *words]
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            env=os.environ | dict(environment),
        )

    return run


def losses(done):
    """All that is printed of losses: one a step, both held-out ones, the hash of all."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    text = " ".join(done.stdout.split())
    steps = re.findall(r"step \d+/\d+ loss (\S+)", text)
    (held_out,) = re.findall(r"held out (\S+) to (\S+)\.", text)
    (found,) = re.findall(r"Hash of all losses: ([0-9a-f]{16})", text)
    return [*steps, *held_out, found]


def test_stages_and_transports_print_the_same_losses(train, tier):
    for ranks in (1, 2) if tier == "quick" else (1, 2, 3, 4):
        first = losses(train("--ranks", ranks, "--stage", 3))
        assert len(set(first)) == TINY["steps"] + 3, "every loss is another one"
        assert float(first[TINY["steps"] - 1]) < float(first[0])
        others = [("shm", 0), ("shm", 1), ("shm", 2), ("threads", 3)]
        for transport, stage in others if ranks > 1 or tier == "full" else others[:1]:
            words = ("--ranks", ranks, "--stage", stage, "--transport", transport)
            assert losses(train(*words)) == first, (transport, stage)


def test_reproducible_runs_do_not_depend_on_the_split(train):
    runs = []
    for ranks, stage in ((1, 0), (2, 3), (4, 2)):
        words = ("--ranks", ranks, "--accumulation", 4 // ranks, "--stage", stage)
        runs.append(losses(train("--reproducible", *words)))
    assert runs[0] == runs[1] == runs[2]


def test_seeds_and_data_change_the_run(train, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a text of ours, again and again. " * 200)
    runs = (("--ranks", 1, "--stage", 3), ("--seed", 2), ("--data", text))
    assert len({losses(train(*words))[-1] for words in runs}) == 3


def states(summary):
    """Bytes of both ranks that the ledger is about."""
    rows = [row for row in summary["memory"] if row["ledger_bytes"]]
    return sum(row["now_bytes"] for row in rows)


def test_the_summary_agrees_with_the_ledger_and_the_plan(train, tmp_path):
    out, replicated = tmp_path / "3", tmp_path / "0"
    printed = losses(train("--ranks", 2, "--stage", 3, "--out", out))
    losses(train("--ranks", 2, "--stage", 0, "--steps", 2, "--out", replicated))
    summary = json.loads((out / "summary.json").read_text())
    settings = summary["settings"]
    assert settings["loss_hash"] == printed[-1]
    assert (settings["steps"], settings["ranks"], settings["interrupted"]) == (8, 2, False)
    assert settings["held_out_loss_after"] < settings["held_out_loss_before"]
    assert {"path": "zero.stage", "value": 3, "origin": "flag"} in summary["config"]
    assert states(summary) < 0.55 * states(json.loads((replicated / "summary.json").read_text()))
    tags = {(row["rank"], row["tag"]): row for row in summary["memory"]}
    for rank, tag in itertools.product((0, 1), ("parameters", "gradients", "optimizer")):
        row = tags[rank, tag]
        assert row["ledger_bytes"] > 0
        assert row["over_ledger_bytes"] == 0, row
    for row in summary["traffic"]:
        assert row["gathered_bytes"] > 0
        assert row["reduced_bytes"] > 0
        assert row["gathered_over_plan_bytes"] == 0
        assert row["reduced_over_plan_bytes"] == 0
    for row in summary["exchange"]:
        assert 0 < row["gather_p50_seconds"] <= row["gather_p99_seconds"]
        assert 0 <= row["hidden_share"] <= 1

    records = [json.loads(line) for line in (out / "run.jsonl").read_text().splitlines()]
    assert [(r["step"], r["rank"]) for r in records] == list(
        itertools.product(range(1, 9), range(2))
    )
    assert [f"{r['loss_mean']:.9g}" for r in records if r["rank"] == 0] == printed[:8]


def test_the_exchange_is_counted_over_the_steps_alone(program, tmp_path):
    """However much was gathered for the held-out loss before them."""
    counts = []
    for sequences in (2, 40):
        path, out = tmp_path / "config.json", tmp_path / str(sequences)
        zero = TINY["zero"] | {"retain": False}
        data = {"held_out_sequences": sequences}
        path.write_text(json.dumps(TINY | {"data": data, "zero": zero}))
        words = ("--stage", "3", "--ranks", "2", "--steps", "2", "--out", out)
        subprocess.run(
            [program, "train", path, *words], stdout=subprocess.DEVNULL, timeout=LIMIT, check=True
        )
        exchange = json.loads((out / "summary.json").read_text())["exchange"]
        counts.append([(row["gathers"], row["reductions"]) for row in exchange])
    assert counts[0] == counts[1]
    assert all(gathers > 0 and reductions > 0 for gathers, reductions in counts[0])


def test_other_launchers_start_the_ranks(train, program):
    expected = losses(train("--ranks", 2, "--stage", 3))
    done = train("--stage", 3, before=(program, "launch", "-n", 2, "--"))
    assert losses(done) == expected
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    alone = tuple(zip(names, ("0", "1", "here", "1"), strict=True))
    assert losses(train(environment=alone)) == losses(train("--ranks", 1, "--stage", 3))
    refused = train("--ranks", 2, environment=alone)
    assert refused.returncode == 2
    assert "--ranks: '2' is not allowed" in refused.stderr


@pytest.mark.parametrize("transport", ["shm", "mpi"])
def test_mpirun_starts_the_ranks(train, transport):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    mpirun = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", 2)
    done = train("--stage", 3, "--transport", transport, before=mpirun)
    assert losses(done) == losses(train("--ranks", 2, "--stage", 3))


def running(program, config, *words):
    """A long run, once it has printed its first step, and what it printed."""
    command = [program, "train", config, "--ranks", "2", "--steps", "1000000", *words]
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if line.startswith("step 1/"):
            return process
    raise AssertionError(process.communicate()[1])


def test_an_interrupt_ends_the_run_with_its_summary(program, config):
    process = running(program, config, "--stage", "3")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (0, "")
    assert "Interrupted after" in out
    assert "Memory by tag" in out
    assert "The model writes:" in out


def ranks_of(process):
    """The processes of its ranks, in the order in which they were started."""
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    )
    return sorted(int(line) for line in children.stdout.split())


def ends_at_a_second_interrupt(process):
    """Interrupts it until it ends: two that come before it has looked count as one."""
    for _ in range(LIMIT):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=1)
            break
        except subprocess.TimeoutExpired:
            continue
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGINT
    assert err == "shardlight train: ended at once by SIGINT, without a summary\n"
    assert "Interrupted after" not in out


def test_a_second_interrupt_ends_a_run_whose_step_hangs(program, config):
    process = running(program, config, "--stage", "3")
    os.kill(ranks_of(process)[1], signal.SIGSTOP)
    ends_at_a_second_interrupt(process)


def test_a_second_interrupt_ends_a_step_of_threads(program, config):
    """A step that would take hours."""
    words = ["--ranks", "2", "--transport", "threads", "--accumulation", "1000000"]
    process = subprocess.Popen(
        [str(program), "train", str(config), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("Each rank computes"):
            break
    ends_at_a_second_interrupt(process)


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_an_output_that_is_full_is_an_error(program, config, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [program, "train", config, "--steps", "1", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    assert done.returncode == 1
    assert "writing the output: it could not be written" in done.stderr


def test_a_killed_rank_ends_the_job_by_its_name(program, config):
    process = running(program, config, "--stage", "2")
    os.kill(ranks_of(process)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGKILL
    assert err.splitlines()[-1] == "shardlight train: rank 1 died of SIGKILL"


def test_a_folder_is_written_by_one_run_at_a_time(program, config, train, tmp_path):
    process = running(program, config, "--out", tmp_path)
    second = train("--steps", "1", "--ranks", "2", "--out", tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    assert second.returncode == 2
    says = f"out: '{tmp_path}' is not allowed; allowed: a folder that no other run is writing to"
    assert says in second.stderr
    assert process.returncode == 0
    records = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [(r["step"], r["rank"]) for r in records] == list(
        itertools.product(range(1, len(records) // 2 + 1), range(2))
    )
    losses(train("--steps", "2", "--ranks", "2", "--out", tmp_path))  # once the first has ended


@pytest.mark.parametrize("transport", ["shm", "threads"])
def test_what_torch_throws_is_shown_as_what_it_comes_from(program, tmp_path, transport):
    """An operator that may not gather its parameters, and one that gets no memory."""
    small = TINY | {"zero": {"gathered_bytes": 1}}
    huge = TINY | {"model": {"hidden": 4096, "vocabulary": 1 << 24}}  # 275 GB
    done = []
    for number, settings in enumerate((small, huge)):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(settings))
        words = [program, "train", path, "--stage", "3", "--ranks", "2", "--transport", transport]
        limit = (ADDRESSES, ADDRESSES)
        done.append(
            subprocess.run(
                [str(word) for word in words],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
                preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, limit),
            )
        )
    assert done[0].returncode == 2
    assert "zero.gathered_bytes: '1' is not allowed; allowed: at least " in done[0].stderr
    assert done[1].returncode == 1
    assert "training: not enough memory: you tried to allocate 274877906944 bytes" in done[1].stderr
    assert "bug" not in done[0].stderr + done[1].stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{config}", "--ranks", "200"], "--ranks: '200' is not allowed; allowed: 1 to 128"),
        (["/no/such.json"], "config: '/no/such.json' is not allowed"),
        ([], "config: is missing"),
        (["{config}", "--stage", "5"], "--stage: '5' is not allowed"),
        (["{config}", "--stge", "3"], "option: '--stge' is not allowed; allowed: did you mean"),
        (["{config}", "--data", "/no/such"], "data.files: /no/such: 'no file' is not allowed"),
    ],
)
def test_mistakes_are_named_before_anything_starts(program, config, words, says):
    words = [word.format(config=config) for word in words]
    done = subprocess.run(
        [program, "train", *words], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"shardlight: {says}")
    assert done.stdout == ""
