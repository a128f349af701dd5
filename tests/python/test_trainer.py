"""shardlight.transformers.Trainer: what it logs has the same bits at every stage, and those of
transformers' own Trainer where the order of additions is the same; what it cannot do is refused."""

import json

import pytest

STAGES = {"quick": ("123", "03", "13"), "full": ("0123", "0123", "0123")}
REFUSED = {
    "save_strategy": "save_model()",
    "bf16_full_eval": "load the model with that dtype",
    "torch_compile": "False",
    "auto_find_batch_size": "False",
    "ddp_broadcast_buffers": "synchronize_buffers=True",
    "optim": "adamw_torch, adamw_torch_fused, sgd, adagrad, rmsprop",
    "accelerator_config.even_batches": "True",
    "accumulation": "gradient_accumulation_steps",
    "clip_norm": "max_grad_norm",
    "stage": "0, 1, 2 or 3",
    "trainer.engine": "after train() began",
    "resume_from_checkpoint": "None",
    "hyperparameter_search()": "a Trainer for each trial",
    "prepare()": "one of each in one call",
    "save_state()": "save_model()",
    "comm_hook": "grad_dtype='compute'",
}


@pytest.fixture(scope="module")
def printed(run_ranks, tier, tmp_path_factory) -> list[list]:
    folder = tmp_path_factory.mktemp("trainer")
    text = run_ranks(2, "train_trainer.py", *STAGES[tier], folder, torchrun=True)
    return [json.loads(line) for line in text.splitlines() if line.startswith('["')]


@pytest.fixture(scope="module")
def logs(printed, tier) -> dict[str, dict[str, list[dict]]]:
    """By run, then by stage or DDP."""
    found = {"plain": {}, "rich": {}, "accelerate": {}}
    for _, name, kind, logged in (line for line in printed if line[0] == "run"):
        found[name][kind] = logged
    for name, stages in zip(found, STAGES[tier], strict=True):
        assert list(found[name]) == ["DDP", *stages]
    return found


def losses(logged: list[dict]) -> list[dict]:
    """All but norms, which torch sums in fp32 and we exactly."""
    return [{key: value for key, value in entry.items() if key != "grad_norm"} for entry in logged]


def norms(logged: list[dict]) -> list[float]:
    return [entry["grad_norm"] for entry in logged if "grad_norm" in entry]


def test_losses_have_the_bits_of_the_trainer_of_transformers(logs):
    expected = logs["plain"]["DDP"]
    assert len(norms(expected)) == 4
    for logged in logs["plain"].values():
        assert losses(logged) == losses(expected)
        assert norms(logged) == pytest.approx(norms(expected), rel=1e-6)


@pytest.mark.parametrize("run", ["plain", "rich", "accelerate"])
def test_everything_logged_is_equal_at_every_stage(logs, run):
    """Training and evaluation losses, norms, learning rates, predictions."""
    first, *others = [logged for kind, logged in logs[run].items() if kind != "DDP"]
    assert others and all(logged == first for logged in others)


def test_accumulation_clipping_and_autocast_mean_what_they_do_in_transformers(logs):
    """Until the first clipped step to the rounding of norms, then to that of bf16."""
    expected = logs["rich"]["DDP"]
    assert norms(expected)[0] > 0.1  # it is clipped
    for logged in logs["rich"].values():
        assert logged[0] == pytest.approx(expected[0], rel=1e-6)
        for ours, theirs in zip(logged, expected, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-2)


def test_a_loop_of_accelerate_means_what_it_does_there(logs):
    """Also the last step of an epoch, which has one micro-step of two."""
    expected = logs["accelerate"]["DDP"]
    assert [len(step["losses"]) for step in expected] == [2, 2, 1] * 2
    for logged in logs["accelerate"].values():
        for ours, theirs in zip(logged, expected, strict=True):
            assert ours.keys() == theirs.keys()
            for key in theirs:
                assert ours[key] == pytest.approx(theirs[key], rel=1e-5)


def test_ranks_of_accelerate_may_have_different_numbers_of_batches(printed):
    assert [line[1] for line in printed if line[0] == "uneven"] == [[2, 2, 1]]


def test_what_cannot_be_honoured_is_refused_by_name(printed):
    refused = {line[2]: line[3] for line in printed if line[0] == "refused"}
    assert refused.keys() == REFUSED.keys()
    for field, allowed in REFUSED.items():
        assert allowed in refused[field]
