"""Errors that Python makes are those that the engine makes."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "release" / "python"))

import shardlight  # noqa: E402
import torch  # noqa: E402
from shardlight._errors import user_error  # noqa: E402


def test_an_error_of_python_is_like_one_of_the_engine():
    with pytest.raises(shardlight.UserError) as caught:
        shardlight.Engine(torch.nn.Linear(2, 2), "sgd", lr=0.1, stage=7)
    theirs = caught.value
    ours = user_error(theirs.field, theirs.value, theirs.allowed)
    assert vars(ours) == vars(theirs) and str(ours) == str(theirs)
    assert str(user_error("size", "", "a number")) == "size: is missing; allowed: a number"
