"""A script for DeepSpeed of which only the import is changed; learns which quadrant a point is in.

torchrun --nproc-per-node 2 examples/deepspeed/train.py \
    --deepspeed_config examples/deepspeed/ds_config.json

`shardlight launch -n 2 -- python …` and `python …` start it as well.
"""

import argparse

import shardlight.deepspeed as deepspeed
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset


def quadrants(count: int) -> TensorDataset:
    points = torch.randn(count, 2, generator=torch.Generator().manual_seed(1))
    return TensorDataset(points, (points[:, 0] > 0).long() + 2 * (points[:, 1] > 0).long())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--local_rank", type=int, default=-1)
    args = deepspeed.add_config_arguments(parser).parse_args()

    torch.manual_seed(0)
    hidden = (nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model = nn.Sequential(*hidden, nn.Linear(64, 4))
    engine, _, loader, _ = deepspeed.initialize(
        args=args, model=model, model_parameters=model.parameters(), training_data=quadrants(1280)
    )
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)
        right = seen = 0
        for points, labels in loader:
            scores = engine(points)
            engine.backward(functional.cross_entropy(scores, labels))
            engine.step()
            right += int((scores.argmax(1) == labels).sum())
            seen += len(labels)
        if deepspeed.comm.get_rank() == 0:
            print(f"epoch {epoch}: {engine.global_steps} steps, {100 * right / seen:.1f} % right")


if __name__ == "__main__":
    main()
