"""The number of threads that pays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

ONE_THREAD = 12_000  # points below which threads wait for each other longer than they work


@contextmanager
def threads_for(n: int, device: torch.device) -> Iterator[None]:
    """Few enough threads for a cloud of ``n`` points on the host, inside the block: one for small clouds, whose many
    short operations gain next to nothing from more, and at most half of the processors. With all of them in use, one
    other busy process makes every operation wait for its slowest thread: ten times slower on two cores."""
    before = torch.get_num_threads()
    wanted = 1 if n < ONE_THREAD else max(1, (os.cpu_count() or 2) // 2)
    fewer = device.type == "cpu" and before > wanted
    if fewer:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        if fewer:
            torch.set_num_threads(before)
