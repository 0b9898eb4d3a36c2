"""Many small operations of a GPU as one: a chain compiled to a kernel, a sequence of kernels replayed as a graph.

    fused(f)(x, ...) = f(x, ...)        one kernel for CUDA tensors (one compilation for each set of shapes)
    replayed(f)(x, ...) = f(x, ...)     one launch for CUDA tensors (one capture for each set of shapes)

Elementwise operations otherwise go through memory one by one, and short kernels wait for their launches. Both are the
plain function elsewhere, and where the compiler or the capture fails.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from ..errors import warn

Function = Callable[..., Any]


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


def replayed(function: Function) -> Function:
    """A function of tensors (and of constants) that answers with one tensor, as a CUDA graph captured at its first call
    with tensors of these shapes; the graphs are kept."""
    kept: dict[Any, Any] = {}

    def capture(given: tuple[Any, ...]) -> Any:
        held = tuple(x.clone() if isinstance(x, Tensor) else x for x in given)
        function(*held)  # compiles
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = function(*held)
        return graph, held, answer

    @wraps(function)
    def call(*given: Any) -> Any:
        tensors = [x for x in given if isinstance(x, Tensor)]
        if not tensors[0].is_cuda:
            return function(*given)
        key = tuple((x.shape, x.dtype, x.device) if isinstance(x, Tensor) else x for x in given)
        if key not in kept:
            try:
                kept[key] = capture(given)
            except RuntimeError as error:
                warn(f"CUDA graphs are not used: {error}")
                kept[key] = None
        if kept[key] is None:
            return function(*given)
        graph, held, answer = kept[key]
        for mine, theirs in zip(held, given, strict=True):
            if isinstance(mine, Tensor):
                mine.copy_(theirs)
        graph.replay()
        return answer.clone()

    return call
