"""`with shardlight.building():` makes a model of transformers that a rank has no memory for, and
from_pretrained() of a local folder loads one."""

import pytest


def test_a_built_model_is_the_plain_one(run_ranks):
    assert run_ranks(2, "build_large.py", "same").count("same as plain") == 2


def test_a_model_larger_than_memory_is_built_and_trained(run_ranks):
    printed = run_ranks(3, "build_large.py", "built")
    assert printed.count("trained") == 3, printed


def test_a_folder_larger_than_memory_is_loaded_and_trained(run_ranks, tmp_path):
    run_ranks(1, "build_large.py", "save", tmp_path)
    printed = run_ranks(3, "build_large.py", "pretrained", tmp_path)
    assert printed.count("trained") == 3, printed


def test_it_takes_no_choices_that_are_the_engines(package, monkeypatch):
    monkeypatch.syspath_prepend(str(package))
    import shardlight

    with pytest.raises(shardlight.UserError, match="stage: '3' is not allowed"):
        with shardlight.building(stage=3):
            pass


def test_without_it_there_is_no_memory_for_the_model(run_ranks):
    assert "can't allocate memory" in run_ranks(1, "build_large.py", "plain", code=1)
