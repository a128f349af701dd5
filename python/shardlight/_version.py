"""The versions of PyTorch that this build works with, checked before the extension is loaded."""

from __future__ import annotations

import torch

# The engine uses internals (storages, observers, autograd's hooks), so it is built for one minor
# version and says so, where the loader would say an undefined symbol.
TORCH = "2.13"


def check_torch() -> None:
    """ImportError where the installed PyTorch is another one."""
    if torch.__version__.split(".")[:2] == TORCH.split("."):
        return
    raise ImportError(
        f"shardlight is built for PyTorch {TORCH}, and this is {torch.__version__}: "
        f"pip install 'torch=={TORCH}.*', then pip install shardlight again"
    )
