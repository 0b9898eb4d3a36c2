"""The number of threads that pays on the host, work side by side on its cores, and its clock.

Small clouds make many short operations that gain next to nothing from more than one thread. For
larger ones at most half of the processors are used: with all of them, one other busy process makes
every operation wait for its slowest thread, which is ten times slower on two cores.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from .progress import report

ONE_THREAD = 12_000  # points below which threads wait for each other longer than they work
CPU = torch.device("cpu")
T = TypeVar("T")
R = TypeVar("R")

_allowed: ContextVar[int | None] = ContextVar("cores that the caller allows", default=None)
_lock = threading.Lock()
_thread = threading.local()
_limits: list[int] = []  # of the blocks that are running now, in any thread of this process
_before = 0


@contextmanager
def allowed_cores(jobs: int | None) -> Iterator[None]:
    """At most ``jobs`` cores inside the block; negative, as for joblib: all but ``-jobs - 1``."""
    if jobs is not None and jobs < 0:
        jobs += 1 + (os.cpu_count() or 1)
    before = _allowed.set(jobs if jobs is None else max(1, jobs))
    try:
        yield
    finally:
        _allowed.reset(before)


def cores(default: int | None = None) -> int:
    """How many cores a call may use: what its caller allows, or ``default``, or all."""
    return _allowed.get() or default or os.cpu_count() or 1


@contextmanager
def limited_threads(
    device: torch.device, points: int | None = None, *, single: int = ONE_THREAD
) -> Iterator[None]:
    """At most half of the processors inside the block; one thread for clouds of fewer than
    ``single`` points, and beside a device, which leaves small operations to the host.

    The setting belongs to the whole process, so blocks that overlap in several Python threads share
    the smallest limit, and the last one to end restores what was there before the first.
    """
    global _before
    small = device.type != "cpu" or (points is not None and points < single)
    limit = 1 if small else cores(max(1, (os.cpu_count() or 2) // 2))
    with _lock:
        _before = _before if _limits else torch.get_num_threads()
        _limits.append(limit)
        torch.set_num_threads(min([_before, *_limits]))
    try:
        yield
    finally:
        with _lock:
            if limit in _limits:  # not in a child forked inside the block
                _limits.remove(limit)
                torch.set_num_threads(min([_before, *_limits]))


def side_by_side(work: Callable[[T], R], parts: Sequence[T], device: torch.device = CPU) -> list[R]:
    """``[work(part) for part in parts]``, on a processor a part at a time on each of its cores
    (`allowed_cores`).

    Unlike the threads of one operation, none of these waits for another; inside of one there are no
    more.
    """
    count = min(len(parts), cores())
    if device.type != "cpu" or count < 2 or getattr(_thread, "at_work", False):
        return [_counted(work(part), number, len(parts)) for number, part in enumerate(parts, 1)]
    # Afterwards the number of threads, which the workers have changed, is set again.
    with limited_threads(device, 0), ThreadPoolExecutor(count, initializer=_alone) as pool:
        running = [pool.submit(work, part) for part in parts]
        try:
            return [_counted(each.result(), i, len(parts)) for i, each in enumerate(running, 1)]
        finally:
            pool.shutdown(cancel_futures=True)  # after an interrupt, what has not begun


def _counted(result: R, number: int, count: int) -> R:
    report(f"{number} of {count} blocks")
    return result


def _alone() -> None:
    """In a worker torch and LAPACK have no more threads: the setting of its caller does not reach
    there."""
    _thread.at_work = True
    torch.set_num_threads(1)


def now(device: torch.device) -> float:
    """Seconds; clocks read on the host count a GPU's work only once it is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _forked() -> None:
    """A forked child has none of its parent's threads: OpenMP would wait for them for ever, so that
    it works alone.
    """
    global _lock
    _lock = threading.Lock()
    _limits.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
