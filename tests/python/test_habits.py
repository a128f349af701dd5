"""What training loops already call keeps working on a sharded model, with the bits of a plain
process, or names the call to use instead."""

import pytest
import torch

HABITS = [
    "saving", "loading", "schedulers", "scaler", "clipping", "checkpointing", "evaluation",
    "averaging", "copying_twice", "hooks", "forking",
]  # fmt: skip


def test_loops_work_as_before(run_ranks):
    printed = run_ranks(2, "habits.py", *HABITS)
    assert printed.count("as in a plain process") == 2 * len(HABITS), printed
    assert "lr_scheduler" not in printed, printed  # no warning of its order


def test_torchrun_starts_ranks_that_meet_over_c10d(run_ranks):
    printed = run_ranks(2, "over_c10d.py", torchrun=True)
    assert printed.count("equal over c10d") == 2, printed


@pytest.fixture
def engine(package, monkeypatch):
    monkeypatch.syspath_prepend(str(package))
    import shardlight

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    with shardlight.Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), stage=3) as one:
        yield one


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stage", 4),
        ("stage", "3"),
        ("deadline", "5"),
        ("deadline", -1.0),
        ("order", "tre"),
        ("order", ("linear", 4)),
        ("order", ("grouped",)),
        ("loss_scale", "x"),
        ("loss_scale_growth_interval", 0.5),
        ("poison", "yes"),
        ("ranks", "mpi"),
        ("unit_bytes", 1.5),
        ("stge", 3),
    ],
)
def test_choices_are_refused_by_name(package, monkeypatch, name, value):
    monkeypatch.syspath_prepend(str(package))
    import shardlight

    with pytest.raises(shardlight.UserError) as raised:
        shardlight.Engine(torch.nn.Linear(4, 4), "sgd", **{name: value})
    assert raised.value.field == name


class Odd(torch.nn.Linear):
    """Its state has a buffer without elements, and something that is no tensor."""

    def __init__(self):
        super().__init__(4, 4)
        self.register_buffer("nothing", torch.empty(0, 3))
        self.seen = 0

    def get_extra_state(self):
        return {"seen": self.seen}

    def set_extra_state(self, state):
        self.seen = state["seen"]


def test_a_state_has_what_strict_loading_wants(package, monkeypatch):
    monkeypatch.syspath_prepend(str(package))
    import shardlight

    model, other = Odd(), Odd()
    model.seen = 3
    with shardlight.Engine(model, "sgd", lr=0.1, stage=3) as engine:
        other.load_state_dict(engine.state_dict())
    assert other.seen == 3
    assert torch.equal(other.weight, model.weight)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda e: e.optimizer.state_dict(), "optimizer.state_dict()"),
        (lambda e: e.optimizer.load_state_dict({}), "optimizer.load_state_dict()"),
        (lambda e: e.optimizer.add_param_group({"params": []}), "optimizer.add_param_group()"),
        (lambda e: e.optimizer.step(lambda: None), "closure"),
        (lambda e: e.step(), "accumulation"),
        (lambda e: e.gradient(torch.ones(2)), "tensor"),
        (lambda e: e.optimizer_state(e.model[0].weight, "momentum_buffer"), "momentum_buffer"),
    ],
)
def test_what_cannot_be_is_refused_by_name(engine, call, says):
    import shardlight

    with pytest.raises(shardlight.UserError, match=says.replace("(", r"\(").replace(")", r"\)")):
        call(engine)
