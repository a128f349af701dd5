"""A rank's part of test_compiled.py: a model that torch.compile compiled, at stage 3 with units
that go as soon as another is used, beside a plain process that compiled it too."""

import shardlight
import torch
from torch import nn
from twins import Case, Twin, adamw, draws, expect_same_state, same_bits

WIDTH = 64


def made() -> nn.Module:
    torch.manual_seed(1)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4)]
    return torch.compile(nn.Sequential(*layers))


def loss(model: nn.Module, draw: torch.Generator) -> torch.Tensor:
    return model(torch.randn(8, WIDTH, generator=draw)).square().mean()


def main() -> None:
    twin, model = Twin(Case("compiled", made, loss), adamw), made()
    with shardlight.Engine(model, adamw(model), stage=3, unit_bytes=0, retain=False) as engine:
        for step in range(3):
            own = loss(model, draws(step, engine.rank))
            engine.backward(own)
            engine.step()
            assert same_bits(own.detach(), twin.step(step, engine.world)[engine.rank])
        expect_same_state(engine.state_dict(), twin.model, "after the steps")
        with torch.no_grad(), engine.gathered():
            draw = draws(9, engine.rank)
            assert same_bits(loss(model, draw), loss(twin.model, draws(9, engine.rank)))
        print("compiled: equal")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
