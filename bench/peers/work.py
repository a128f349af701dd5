"""The work of the race: a GPT, its batches, and the memory of a process, the same for all."""

import threading
import zlib
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    width: int
    layers: int
    heads: int
    vocabulary: int
    length: int
    batch: int

    @property
    def tokens(self) -> int:
        return self.length * self.batch


SIZES = {
    "tiny": Size(128, 2, 4, 1024, 32, 1),
    "small": Size(512, 8, 8, 16384, 256, 4),
    "short": Size(512, 8, 8, 16384, 64, 1),
    "comm": Size(1024, 8, 16, 16384, 64, 1),  # few tokens a rank: traffic weighs most
}


class Block(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.attention(self.norm_1(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class GPT(nn.Module):
    """Tied, as GPT-2 is."""

    def __init__(self, size: Size):
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


@torch.no_grad()
def set_values(parameters) -> None:
    """From each name alone, so that all engines start from the same model."""
    for name, parameter in parameters:
        if "norm" in name:
            parameter.fill_(1.0 if name.endswith("weight") else 0.0)
        elif name.endswith("bias"):
            parameter.zero_()
        else:
            draw = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            parameter.normal_(0.0, 0.02, generator=draw)


def batch(size: Size, rank: int, step: int):
    """Sequences with a constant stride, which can be learnt."""
    draw = torch.Generator().manual_seed(1_000_003 * step + rank)
    first = torch.randint(size.vocabulary, (size.batch, 1), generator=draw)
    stride = torch.randint(1, 6, (size.batch, 1), generator=draw)
    ids = (first + stride * torch.arange(size.length + 1)) % size.vocabulary
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def proportional_bytes() -> int:
    """Anonymous and shared memory, each page divided by the processes that map it."""
    with open("/proc/self/smaps_rollup") as file:
        kilobytes = dict(line.split()[:2] for line in file if line.startswith("Pss"))
    return 1024 * (int(kilobytes["Pss_Anon:"]) + int(kilobytes["Pss_Shmem:"]))


class MemoryPeak(threading.Thread):
    """Samples proportional_bytes(); it takes time, so the run's times do not count."""

    def __init__(self):
        super().__init__(daemon=True)
        self._peak, self._ended = 0, threading.Event()

    def run(self):
        while not self._ended.wait(0.05):
            self._peak = max(self._peak, proportional_bytes())

    def stop(self) -> int:
        self._ended.set()
        self.join()
        return max(self._peak, proportional_bytes())
