"""A rank's part of test_optimizers.py: optimizer classes as users write them, on GPT-2 at stage 3
beside a plain process. Words: names of functions below."""

import models
import shardlight
import torch
from twins import Twin, draws, expect_same_state, run_words

CASE = models.cases()[0]


class Counting(torch.optim.Optimizer):
    """Keeps its count of steps in its groups, as schedule-free classes do."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr, "k": 0, "sum": torch.zeros(())})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] += 1
            group["sum"] += group["lr"]
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad * group["lr"] / (group["k"] + group["sum"]))


class Curious(torch.optim.Optimizer):
    """Keeps what it was given on itself, under one name or another."""

    def __init__(self, params, power, lr=0.1, nesterov=False, shrink=1.0):
        super().__init__(params, {"lr": lr})
        self.power, self._nesterov, self.factors = power, nesterov, {"shrink": shrink}
        self.rule = self.push if nesterov else self.pull

    def push(self, p, lr):
        p.sub_(p.grad.abs().pow(self.power) * p.grad.sign() * lr * self.factors["shrink"])

    def pull(self, p, lr):
        p.add_(p.grad * lr)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.rule(p, group["lr"])


class Keeping(torch.optim.Optimizer):
    """Keeps .grad itself, which is another gradient later where its memory is used again."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    before = self.state[p].get("before", torch.zeros_like(p))
                    p.sub_((p.grad + before) * group["lr"])
                    self.state[p]["before"] = p.grad


def train(optimizer, steps=3, between=lambda optimizer, step: None, **choices):
    """Steps of the engine and of its twin; their states have the same bits."""
    model, twin = CASE.make(), Twin(CASE, optimizer)
    choices = {"stage": 3, "unit_bytes": 16 << 10, **choices}
    with shardlight.Engine(model, optimizer(model), **choices) as engine:
        for step in range(steps):
            engine.backward(CASE.loss(model, draws(step, engine.rank)))
            engine.step()
            twin.step(step, engine.world)
            for one in (engine.optimizer, twin.optimizer):
                between(one, step)
        expect_same_state(engine.state_dict(), twin.model, "after the steps")


def groups():
    def change(optimizer, step):
        if step == 1:
            optimizer.param_groups[0]["lr"] *= 0.5
        if step == 2:
            optimizer.param_groups[0]["sum"].fill_(3)

    train(lambda model: Counting(model.parameters()), steps=5, between=change)


def warming_up():
    """The first lr is 0, by which nothing steps."""

    def change(optimizer, step):
        optimizer.param_groups[0]["lr"] = 0.05 * (step + 1)

    train(lambda model: Counting(model.parameters(), lr=0.0), between=change)


def refused():
    model = CASE.make()
    for cls in (Keeping, torch.optim.LBFGS, torch.optim.Adafactor):
        try:
            shardlight.Engine(model, cls(model.parameters(), lr=0.1), stage=3)
        except shardlight.UserError as error:
            assert (error.field, error.value) == ("optimizer", cls.__name__), error
        else:
            raise AssertionError(f"{cls.__name__} was taken")


def attributes():
    def curious(model):
        made = Curious(model.parameters(), 2, lr=0.5, nesterov=True, shrink=0.25)
        torch.optim.lr_scheduler.LambdaLR(made, lambda epoch: 1.0)  # overrides its step()
        return made

    train(curious)


if __name__ == "__main__":
    run_words(globals())
