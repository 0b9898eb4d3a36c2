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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, extra
from ..host.progress import Progress
from .clouds import finished, places, reason
from .encoding import ENDING
from .session import Session

PROCESSES = "processes"
PATIENCE = 5  # seconds that a scheduler has to answer


@contextmanager
def cluster(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler at an address, or of worker processes of this machine, one per
    core.
    """
    distributed = extra("distributed")
    if scheduler == PROCESSES:
        options = {"n_workers": os.cpu_count(), "threads_per_worker": 1, "host": "127.0.0.1"}
        options |= {"dashboard_address": None, "silence_logs": logging.CRITICAL}
        # Workers leave Ctrl-C to this process, which stops them.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            local = distributed.LocalCluster(**options)
        finally:
            signal.signal(signal.SIGINT, before)
        with local, distributed.Client(local) as client:
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"--scheduler takes an address or {PROCESSES}: nothing answers at {scheduler}"
        ) from error
    with client:
        yield client


def spread(
    client: Any, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], title: str
) -> Iterator[Any]:
    """The number of every task and what ``function(*task)`` returns, as they come; a text where
    workers died.
    """
    distributed = extra("distributed")
    submitted = [client.submit(function, *task, pure=False) for task in tasks]
    futures = {future: number for number, future in enumerate(submitted)}
    with Progress(title, len(tasks)) as bar:
        for future in distributed.as_completed(submitted):
            try:
                result = future.result()
            except distributed.KilledWorker:
                result = "every worker that tried it was lost"
            future.release()
            bar.advance()
            yield futures[future], result


def spread_files(
    function: Callable[..., None], options: dict[str, Any], session: Session, scheduler: str
) -> None:
    """``decompose`` or ``encode`` of every file as a task of its own."""
    name, given = function.__name__, options.pop("shapes")
    root, ending = session.folder(f"{name}d"), "" if name == "decompose" else ENDING
    force = options.get("force", False)
    session.same_settings(root, force)
    named = places(given, session.out)
    targets = {file: root / f"{place}{ending}" for file, place in named.items()}
    left = [file for file in targets if force or not finished(targets[file], file)]
    options["force"] = True  # a task that is repeated finds what the lost worker has written
    settings = options | {"session": replace(session, quiet=True, written=[])}
    failed: dict[Path, str] = {}
    tasks = [(function, file, targets[file], settings) for file in left]
    with cluster(scheduler) if tasks else nullcontext() as client:
        for number, result in spread(client, _on_worker, tasks, name) if tasks else ():
            if isinstance(result, str):
                failed[left[number]] = result
            else:
                session.written.extend(result)
    session.finish_all(f"{name}d", len(targets), len(targets) - len(left), failed)


def _on_worker(
    function: Callable[..., None], file: Path, out: Path, settings: dict[str, Any]
) -> Any:
    """What was written, or why not."""
    session = replace(settings["session"], out=out, started=time.monotonic(), written=[])
    try:
        function([file], **{**settings, "session": session})
    except Exception as error:
        return reason(error, session)
    return session.written
