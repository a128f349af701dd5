from collections.abc import Callable, Sequence
from typing import Any, overload

from torch import Tensor
from torch.distributed import ProcessGroup, Store

class Error(RuntimeError):
    field: str
    value: str
    allowed: str
    unit: str
    operation: str
    rank: int | None

class UserError(Error, ValueError): ...
class JobError(Error): ...
class BugError(Error): ...

class Ranks:
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...

def ranks_of_host(deadline: float) -> Ranks: ...
def ranks_of_process_group(group: ProcessGroup, store: Store, deadline: float) -> Ranks: ...

class PythonOptimizer:
    def __init__(
        self,
        name: str,
        settings: str,
        elementwise: bool,
        make: Callable[[Sequence[str], Sequence[Tensor]], Any],
    ) -> None: ...

class Options:
    stage: int
    shared_units: bool
    accumulation: int
    reproducible: bool
    clip_norm: float | None
    seed: int | None
    retain: bool
    synchronize_buffers: bool
    sanity_steps: int
    ranks: Ranks | None
    unit_bytes: int
    bucket_bytes: int
    prefetch_bytes: int
    gathered_bytes: int | None
    deadline: float
    reduce: str
    grad_dtype: str
    order: str | tuple[str, int]
    loss_scale: float
    loss_scale_growth_interval: int
    poison: bool

class Scope:
    def end(self) -> None: ...

class BuildingScope:
    def __init__(self, options: Options) -> None: ...
    def end(self) -> None: ...
    def check(self) -> None: ...

class FullState:
    def next(self) -> tuple[str, Tensor] | None: ...

class Engine:
    @overload
    def __init__(
        self,
        parameters: Sequence[tuple[str, Tensor]],
        buffers: Sequence[tuple[str, Tensor]],
        optimizer: PythonOptimizer,
        options: Options,
    ) -> None: ...
    @overload
    def __init__(
        self,
        scope: BuildingScope,
        parameters: Sequence[tuple[str, Tensor]],
        buffers: Sequence[tuple[str, Tensor]],
        optimizer: PythonOptimizer,
        options: Options,
    ) -> None: ...
    def backward(self, loss: Tensor) -> None: ...
    def scaled(self, loss: Tensor) -> Tensor: ...
    def step(self) -> dict[str, Any]: ...
    def join(self) -> int: ...
    def no_sync(self) -> Scope: ...
    def gathered(self, parameters: Sequence[Tensor], write: bool) -> Scope: ...
    def gradient(self, parameter: Tensor) -> Tensor: ...
    def optimizer_state(self, parameter: Tensor, name: str) -> Tensor: ...
    def full_state(self) -> FullState: ...
    def memory(self) -> dict[str, Any]: ...
    def traffic(self) -> dict[str, Any]: ...
    def plan(self) -> dict[str, Any]: ...
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    def close(self) -> None: ...
    def leave(self) -> None: ...
