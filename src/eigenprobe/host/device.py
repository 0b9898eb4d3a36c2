"""Devices: which one ``"auto"`` is, many small operations of a GPU as one, and the way back from
it.

    fused(f)(x, ...) = f(x, ...)             compiled for CUDA tensors (for each set of shapes
                                             once), plain elsewhere
    graphed(f, y, ...)(x, ...) = f(x, ...)   captured for CUDA tensors of the shapes of y, ...
    moved(x, device) = x.to(device)          of much memory from a GPU to the host by all cores

Elementwise operations otherwise go through memory one by one, and short kernels wait for their
launches.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, warn
from .threads import side_by_side

Function = Callable[..., Any]
PIECE = 1 << 24  # bytes that a core fetches at once
FETCHED = (torch.float32, torch.float64, torch.int64)


def resolved(device: str | torch.device) -> torch.device:
    """The device by its name; ``"auto"`` is a GPU of CUDA where torch finds one. It is not Apple's
    ``mps``, which has no double precision. One that holds no numbers here is an error.
    """
    best = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(best if device == "auto" else device)
        torch.zeros(1, device=found).item()
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise InputError(f"device {str(device)!r} cannot be used here: {why}") from error
    return found


def fused(function: Function) -> Function:
    """The function, compiled where its first argument lies on a GPU; plain, after one warning,
    where that fails.
    """
    chosen: list[Function] = []

    @wraps(function)
    def call(first: Tensor, *others: Tensor) -> Any:
        if not first.is_cuda:
            return function(first, *others)
        if not chosen:
            # Indices are our own: a check of each would be a third of the instructions of a gather.
            options: Any = {"assert_indirect_indexing": False}
            chosen.append(torch.compile(function, dynamic=False, options=options))
        try:
            return chosen[0](first, *others)
        except (
            Exception
        ) as error:  # no compiler, no Triton: the plain function is right in any case
            if chosen[0] is function:
                raise
            warn(f"no compiled kernels ({type(error).__name__}): every operation is its own")
            chosen[0] = function
            return function(first, *others)

    return call


def graphed(function: Function, *samples: Tensor) -> Function | None:
    """The function, its passes (of a module the backward one too) replayed for inputs like
    ``samples``, whose memory it keeps; None, after a warning, where that cannot be.
    """
    try:
        with torch.enable_grad():  # of a module the forward is replaced
            return torch.cuda.make_graphed_callables(function, samples)
    except (RuntimeError, AssertionError, ValueError) as error:
        warn(f"CUDA graphs are not used: {error}")
        return None


def moved(x: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device. What a GPU holds of more than a few pieces is fetched by all cores of
    the host at once: one alone takes a second for a gigabyte, most of it for memory that the
    host has to clear first.
    """
    large = x.ndim > 0 and x.nbytes >= 4 * PIECE and x.dtype in FETCHED
    if not (x.is_cuda and torch.device(device).type == "cpu" and large) or x.requires_grad:
        return x.to(device)
    kind = torch.empty(0, dtype=x.dtype).numpy().dtype
    found = torch.from_numpy(np.empty(tuple(x.shape), kind))  # numpy asks for large pages
    rows = max(1, PIECE * len(x) // x.nbytes)
    ready = torch.cuda.current_stream(x.device).record_event()

    def fetch(part: tuple[Tensor, Tensor]) -> None:
        place, source = part
        stage = torch.empty(source.shape, dtype=x.dtype, pin_memory=True)
        stream = torch.cuda.Stream(x.device)
        stream.wait_event(ready)
        with torch.cuda.stream(stream):
            stage.copy_(source, non_blocking=True)
        stream.synchronize()
        place.copy_(stage)

    side_by_side(fetch, list(zip(found.split(rows), x.split(rows), strict=True)))
    return found
