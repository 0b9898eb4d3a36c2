"""Devices: which one ``"auto"`` is, and many small operations of a GPU as one.

    fused(f)(x, ...) = f(x, ...)             compiled for CUDA tensors (for each set of shapes once), plain elsewhere
    graphed(f, y, ...)(x, ...) = f(x, ...)   captured for CUDA tensors of the shapes of y, ...

Elementwise operations otherwise go through memory one by one, and short kernels wait for their launches.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from ..errors import warn

Function = Callable[..., Any]


def resolved(device: str | torch.device) -> torch.device:
    """The device by its name; ``"auto"`` is a GPU where torch finds one."""
    best = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(best if device == "auto" else device)


def fused(function: Function) -> Function:
    """The function, compiled where its first argument lies on a GPU; plain, after one warning, where that fails."""
    chosen: list[Function] = []

    @wraps(function)
    def call(first: Tensor, *others: Tensor) -> Any:
        if not first.is_cuda:
            return function(first, *others)
        if not chosen:
            # Indices are our own: a check of each would be a third of the instructions of a gather.
            chosen.append(torch.compile(function, dynamic=False, options={"assert_indirect_indexing": False}))
        try:
            return chosen[0](first, *others)
        except Exception as error:  # no compiler, no Triton: whatever it is, the plain function is right
            if chosen[0] is function:
                raise
            warn(f"no compiled kernels ({type(error).__name__}): every operation is its own")
            chosen[0] = function
            return function(first, *others)

    return call


def graphed(function: Function, *samples: Tensor) -> Function | None:
    """The function, its passes (of a module the backward one too) replayed for inputs like ``samples``, whose memory
    it keeps; None, after a warning, where that cannot be."""
    try:
        with torch.enable_grad():
            return torch.cuda.make_graphed_callables(function, samples)  # of a module it replaces the forward
    except (RuntimeError, AssertionError, ValueError) as error:
        warn(f"CUDA graphs are not used: {error}")
        return None
