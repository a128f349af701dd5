"""The LR schedules have the values of DeepSpeed 0.19.8's own classes, which printed what is here:
lr before the first step, then after each of ten; deepspeed/runtime/lr_schedules.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "release" / "python"))

import shardlight  # noqa: E402
import torch  # noqa: E402
from shardlight.deepspeed import lr_schedules  # noqa: E402

LINEAR = {"warmup_max_lr": 0.01, "warmup_num_steps": 3, "warmup_type": "linear"}
ONE_CYCLE = {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1, "cycle_first_step_size": 3}
PRINTED = [
    (
        "WarmupLR", {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01, "warmup_num_steps": 4},
        [0.001, 0.001, 0.0055000000000000005, 0.008132331253245204] + [0.010000000000000002] * 7,
    ),
    (
        "WarmupDecayLR", {"total_num_steps": 9, **LINEAR},
        [0.0, 0.0, 0.003333333333333333, 0.006666666666666666, 0.01, 0.008333333333333333,
         0.006666666666666666, 0.005, 0.003333333333333333, 0.0016666666666666666, 0.0],
    ),
    (
        "WarmupCosineLR", {"total_num_steps": 9, "warmup_num_steps": 3, "cos_min_ratio": 0.1},
        [0.0, 0.0, 0.012618595071429147, 0.02, 0.01879422863405995, 0.015500000000000002,
         0.011000000000000001, 0.006500000000000002, 0.0032057713659400518, 0.002, 0.002],
    ),
    (
        "LRRangeTest", {"lr_range_test_min_lr": 0.001, "lr_range_test_step_size": 3,
                        "lr_range_test_step_rate": 2.0},
        [0.001, 0.0016666666666666666, 0.002333333333333333, 0.003, 0.0036666666666666666,
         0.004333333333333334, 0.005, 0.005666666666666667, 0.006333333333333333, 0.007,
         0.007666666666666667],
    ),
    (
        "OneCycle", {**ONE_CYCLE, "cycle_second_step_size": 4, "decay_step_size": 2,
                     "decay_lr_rate": 0.5},
        [0.01, 0.039999999999999994, 0.06999999999999998, 0.1, 0.07750000000000001,
         0.054999999999999986, 0.032499999999999994, 0.01, 0.008, 0.006666666666666667,
         0.005714285714285714],
    ),
]  # fmt: skip


def adam(groups=1, cls=torch.optim.Adam):
    parameters = [{"params": [torch.nn.Parameter(torch.zeros(2))]} for _ in range(groups)]
    return cls(parameters, lr=0.02)


def made(name, arguments, optimizer):
    return lr_schedules.SCHEDULES[name](optimizer, **arguments)


@pytest.mark.parametrize(("name", "arguments", "expected"), PRINTED, ids=lambda some: str(some)[:9])
def test_a_schedule_has_deepspeeds_bits(name, arguments, expected):
    optimizer = adam()
    schedule = made(name, arguments, optimizer)
    lrs = [optimizer.param_groups[0]["lr"]]
    for _ in range(10):
        schedule.step()
        lrs.append(optimizer.param_groups[0]["lr"])
        assert schedule.get_last_lr() == [lrs[-1]]
    assert lrs == expected
    # At any step at once, and on from a state.
    again = made(name, arguments, adam())
    again.step(5)
    assert again.get_last_lr() == [expected[6]]
    resumed = made(name, arguments, adam())
    resumed.load_state_dict(again.state_dict())
    resumed.step()
    assert resumed.get_last_lr() == [expected[7]]


def test_one_cycle_moves_momentum_the_other_way():
    optimizer = adam()
    decay = {"decay_step_size": 1, "decay_mom_rate": 0.5}
    moms = {"cycle_min_mom": 0.5, "cycle_max_mom": 0.75}
    cycle = {**ONE_CYCLE, "cycle_first_step_size": 2, **moms, **decay}
    schedule = made("OneCycle", cycle, optimizer)
    seen = [optimizer.param_groups[0]["betas"]]
    for _ in range(6):
        schedule.step()
        seen.append(optimizer.param_groups[0]["betas"])
    # From the peak of the lr on back up; after the cycle times 1 + 0.5 * steps.
    expected = [0.5, 0.625, 0.5, 0.625, 0.75, 0.75 * 1.5, 0.75 * 2]
    assert seen == [(mom, 0.99) for mom in expected]
    sgd = adam(cls=torch.optim.SGD)
    assert made("OneCycle", ONE_CYCLE, sgd).get_mom() is None


def test_one_cycle_has_stairs():
    optimizer = adam()
    stairs = {"cycle_min_lr": 0.0, "cycle_max_lr": 1.0, "cycle_first_step_size": 4}
    schedule = made("OneCycle", {**stairs, "cycle_first_stair_count": 2}, optimizer)
    lrs = []
    for _ in range(8):
        schedule.step()
        lrs.append(optimizer.param_groups[0]["lr"])
    assert lrs == [0.0, 0.5, 0.5, 1.0, 0.5, 0.5, 0.0, 0.0]


def test_each_group_has_its_own_and_tensors_are_filled():
    optimizer = adam(groups=2)
    optimizer.param_groups[0]["lr"] = lr = torch.tensor(0.5)
    schedule = made("WarmupLR", {"warmup_max_lr": [1.0, 2.0], "warmup_num_steps": 1}, optimizer)
    schedule.step(7)
    assert optimizer.param_groups[0]["lr"] is lr
    assert [float(some) for some in schedule.get_last_lr()] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("WarmupLR", {"warmup_num_steps": 0}, "warmup_num_steps"),
        ("WarmupLR", {"warmup_type": "cosine"}, "warmup_type"),
        ("WarmupLR", {"warmup_min_lr": [1, 2]}, "warmup_min_lr"),
        ("LRRangeTest", {"lr_range_test_step_size": 1.5}, "lr_range_test_step_size"),
        ("OneCycle", {**ONE_CYCLE, "cycle_first_step_size": 0}, "cycle_first_step_size"),
        ("OneCycle", {**ONE_CYCLE, "cycle_second_step_size": -1}, "cycle_second_step_size"),
    ],
)
def test_arguments_are_errors_by_name(name, arguments, field):
    with pytest.raises(shardlight.UserError) as caught:
        made(name, arguments, adam())
    assert caught.value.field == field
