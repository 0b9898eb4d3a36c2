"""One kernel on a GPU for a chain of elementwise operations, which would otherwise go through memory one by one.

fused(f)(x, ...) = f(x, ...)      compiled for CUDA tensors (one compilation for each set of shapes), plain elsewhere
"""

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor

from ..errors import warn


def fused(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function, compiled where its first argument lies on a GPU; plain, after one warning, where that fails."""
    chosen: list[Callable[..., Tensor]] = []

    @wraps(function)
    def call(first: Tensor, *others: Tensor) -> Tensor:
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
