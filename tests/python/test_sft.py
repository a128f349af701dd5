"""examples/sft.py: the same bits at stages 0 and 2; its loss falls and is that of the answers."""

import re

import pytest


@pytest.fixture(scope="module")
def printed(run_ranks, root, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("sft") / "model"
    return run_ranks(2, "check_sft.py", root / "examples/sft.py", folder, torchrun=True)


@pytest.fixture(scope="module")
def runs(printed) -> dict[str, list[float]]:
    """The held-out losses that each run printed, rounded, and the exact one at its end."""
    parts = re.split(r"^run (.+)\n", printed, flags=re.M)[1:]
    found = {}
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        losses = re.findall(r"^step .* held-out loss (\S+) ", part, re.M)
        last = re.search(r"^held-out loss \S+, exactly (\S+)$", part, re.M)[1]
        found[name] = [*map(float, losses), float.fromhex(last)]
    return found


def test_the_held_out_loss_has_the_same_bits_at_stages_0_and_2(runs):
    assert len(runs["stage 2"]) == 3
    assert runs["stage 0"] == runs["stage 2"]


def test_the_held_out_loss_falls(runs):
    first, later, last = runs["stage 2"]
    assert first > later > last


def test_what_was_saved_is_where_the_next_run_begins(runs):
    assert runs["saved"] == runs["stage 2"][-1:]


def test_the_held_out_loss_is_that_of_the_answers(runs, printed):
    loss, count = re.search(r"^computed loss (\S+) of (\d+) tokens$", printed, re.M).groups()
    assert int(count) > 500
    assert runs["saved"][0] == pytest.approx(float(loss), rel=1e-6)
