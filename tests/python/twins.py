"""A plain process that does by itself what all ranks do together: the gradients of each rank's
batch, added in rank order, their mean, and a step of torch's own optimizer. Each rank runs it
beside the engine and compares bits."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Case:
    name: str
    make: Callable[[], nn.Module]  # the same model each time
    loss: Callable[[nn.Module, torch.Generator], torch.Tensor]  # on a batch that is drawn


def adamw(model: nn.Module, lr: float = 1e-2) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=lr, fused=True)


def draws(step: int, rank: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 * step + rank)


class Twin:
    """`optimizer` is over `model`'s parameters."""

    def __init__(self, case: Case, optimizer: Callable[[nn.Module], torch.optim.Optimizer]):
        self.case, self.model = case, case.make()
        self.optimizer = optimizer(self.model)

    def step(self, step: int, world: int) -> list[torch.Tensor]:
        """The losses of all ranks."""
        trained = [p for p in self.model.parameters() if p.requires_grad]
        losses, sums = [], None
        for rank in range(world):
            loss = self.case.loss(self.model, draws(step, rank))
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
            losses.append(loss.detach())
            sums = list(gradients) if sums is None else [_add(*two) for two in zip(sums, gradients)]
        for parameter, gradient in zip(trained, sums):
            parameter.grad = None if gradient is None else gradient * torch.tensor(1 / world)
        self.optimizer.step()
        return losses


def _add(a, b):
    if a is None or b is None:
        return b if a is None else a
    return a + b


def run_words(functions: dict[str, Callable[[], None]]) -> None:
    """Calls the functions that the command's words name."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:]:
        functions[name]()
        print(f"{name}: as in a plain process")


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def expect_same_state(state: dict, model: nn.Module, what: str) -> None:
    expected = model.state_dict()
    assert state.keys() == expected.keys(), f"{what}: {state.keys() ^ expected.keys()}"
    for name, tensor in expected.items():
        assert same_bits(state[name], tensor), f"{what}: {name} differs"
