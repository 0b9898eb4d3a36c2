"""Commands on a Dask cluster: a task is one file, or one block of rows, and leaves a whole file
behind.

    files -> tasks without those whose output exists -> workers -> what was written, in the order of
    completion

A worker that is lost loses its task, which another one repeats; a run that is stopped goes on where
it was, because whatever lies in the output folder is not done again. Workers and scheduler share
the file system.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import InputError, extra
from ..host.progress import Progress

PROCESSES = "processes"
PATIENCE = 5  # seconds that a scheduler has to answer


def cluster(scheduler: str) -> Any:
    """A client of the scheduler at an address, or of worker processes of this machine, one per
    core.
    """
    distributed = extra("distributed")
    options: dict[str, Any] = {"address": scheduler, "timeout": PATIENCE}
    if scheduler == PROCESSES:
        options = {"n_workers": os.cpu_count(), "threads_per_worker": 1, "host": "127.0.0.1"}
        options |= {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    # Workers of this machine leave Ctrl-C to this process, which stops them.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return distributed.Client(**options)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"--scheduler takes an address or {PROCESSES}: nothing answers at {scheduler}"
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)


def spread(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    title: str,
    scheduler: str | None,
) -> Iterator[tuple[int, Any]]:
    """The number of every task and what ``function(*task)`` returns, as they come, from workers or
    without a scheduler from here; a text where workers died.
    """
    with Progress(title, len(tasks)) as bar:
        if scheduler is None:
            for number, task in enumerate(tasks):
                yield number, function(*task)
                bar.advance()
            return
        distributed = extra("distributed")
        with cluster(scheduler) as client:
            submitted = [client.submit(function, *task, pure=False) for task in tasks]
            futures = {future: number for number, future in enumerate(submitted)}
            for future in distributed.as_completed(submitted):
                try:
                    result = future.result()
                except distributed.KilledWorker:
                    result = "every worker that tried it was lost"
                future.release()
                bar.advance()
                yield futures[future], result
