"""The losses of 20 steps beside DistributedDataParallel, FSDP2 and DeepSpeed's stage 3 on the same
model, batches and optimizer, all as bench/peers runs them."""

import subprocess
import sys

import pytest

STEPS = 20
# Of a loss: sums of the ranks' gradients are rounded in another order, and DeepSpeed's AdamW steps
# flattened partitions: 2e-7 a rounding, which 20 steps amplify; found are 1e-6 and less.
ROUNDING = 1e-5


@pytest.fixture(scope="session")
def deepspeed_python(root):
    """A Python that has DeepSpeed beside .venv's packages; for this and the race alone."""
    if not (root / "build" / "peers" / "bin" / "deepspeed").exists():
        subprocess.run([root / "bench" / "peers" / "install.sh"], check=True)
    return root / "build" / "peers" / "bin" / "python"


@pytest.fixture(scope="session")
def losses(package, root):
    """losses(engine, python) of each rank, from bench/peers/engines.py's engine of that name."""
    sys.path.insert(0, str(root / "bench" / "peers"))
    from race import run_once

    done = {}

    def of(engine, python=sys.executable):
        if engine not in done:
            said = run_once(str(python), engine, "tiny", 2, steps=(STEPS, 0))
            assert said, f"{engine} failed"
            done[engine] = [rank["losses"] for rank in sorted(said, key=lambda rank: rank["rank"])]
        return done[engine]

    return of


def expect_close(ours, theirs):
    for rank, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        assert len(own) == len(other) == STEPS
        assert own[-1] < 0.99 * own[0], f"rank {rank} learnt nothing: {own}"
        assert own == pytest.approx(other, rel=ROUNDING, abs=0), f"rank {rank}"


@pytest.mark.parametrize("engine", ["ddp", "fsdp2"])
def test_losses_are_those_of_torch(losses, engine):
    expect_close(losses("shardlight-3"), losses(engine))


def test_losses_are_those_of_deepspeed(losses, deepspeed_python):
    expect_close(losses("shardlight-3"), losses("deepspeed-3-limits-0", deepspeed_python))


@pytest.mark.parametrize("engine", ["shardlight-1", "shardlight-2", "shardlight-3"])
def test_losses_have_the_bits_of_stage_0(losses, engine):
    assert losses(engine) == losses("shardlight-0")
