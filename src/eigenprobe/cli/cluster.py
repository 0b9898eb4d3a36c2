"""Commands on a Dask cluster: a task is one file, or one block of rows, and leaves a whole file behind.

    files -> tasks without those whose output exists -> workers -> what was written, in the order of completion

A worker that is lost loses its task, which another one repeats; a run that is stopped goes on where it was, because
whatever lies in the output folder is not done again. Workers and scheduler share the file system.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, extra
from ..host.progress import Progress
from .clouds import unused
from .session import Session

PROCESSES = "processes"
PATIENCE = 10  # seconds that a scheduler has to answer


@contextmanager
def cluster(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler at an address, or of worker processes of this machine, one per core."""
    distributed = extra("distributed")
    if scheduler == PROCESSES:
        options = {"n_workers": os.cpu_count(), "threads_per_worker": 1, "host": "127.0.0.1"}
        options |= {"dashboard_address": None, "silence_logs": logging.CRITICAL}
        with distributed.LocalCluster(**options) as local, distributed.Client(local) as client:
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler takes an address or {PROCESSES}: nothing answers at {scheduler}") from error
    with client:
        yield client


def spread(client: Any, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], title: str) -> Iterator[Any]:
    """The number of every task and what ``function(*task)`` returns, as they come; a text where workers died."""
    distributed = extra("distributed")
    futures = {client.submit(function, *task, pure=False): number for number, task in enumerate(tasks)}
    with Progress(title, len(tasks)) as bar:
        for future in distributed.as_completed(list(futures)):
            try:
                result = future.result()
            except distributed.KilledWorker:
                result = "every worker that tried it was lost"
            future.release()
            bar.advance()
            yield futures[future], result


def spread_files(function: Callable[..., None], options: dict[str, Any], session: Session, scheduler: str) -> None:
    """``decompose``, ``encode`` or ``cache`` of every file as a task of its own."""
    from ..geometry import find_shapes

    name = function.__name__
    given = options["shapes"]
    if name == "cache":
        from ..geometry.io import MESHES

        files, root = find_shapes(given, MESHES, below=True), session.out
        options["jobs"] = 1
    else:
        files, root = list(dict.fromkeys(find_shapes(given))), session.folder(f"{name}d")
    places = _places(files, root, name)
    marks = {file: mark for file, (_, mark) in places.items() if mark is not None and not options.get("force")}
    kept = [file for file, mark in marks.items() if mark.exists()]
    left = [file for file in files if file not in kept]
    settings = {key: value for key, value in options.items() if key != "shapes"}
    settings["session"] = replace(session, quiet=True, written=[])
    failed: dict[Path, str] = {}
    with cluster(scheduler) as client:
        tasks = [(function, file, places[file][0], settings) for file in left]
        for number, result in spread(client, _on_worker, tasks, name):
            if isinstance(result, str):
                failed[left[number]] = result
            else:
                session.written.extend(result)
    session.skipped(failed)
    done = len(left) - len(failed)
    session.finish(f"{name}d {done} of {len(files)} shapes{f', {len(kept)} already there' if kept else ''},")
    if failed and (name == "decompose" or not done + len(kept)):
        raise InputError(f"{len(failed)} of {len(files)} shapes failed; first: {next(iter(failed.values()))}")


def _places(files: list[Path], root: Path | None, name: str) -> dict[Path, tuple[Path | None, Path | None]]:
    """The output folder of every file, and the file that says it is done; shapes of one name get different ones."""
    if root is None or name == "cache":  # which knows itself what is missing
        return dict.fromkeys(files, (root, None))
    places: dict[Path, tuple[Path | None, Path | None]] = {}
    taken: set[Path] = set()
    for file in files:
        own = unused(root / file.stem, taken)
        folder = own if name == "decompose" or own.name != file.stem else root
        places[file] = folder, folder / f"{'basis' if name == 'decompose' else file.stem}.safetensors"
    return places


def _on_worker(function: Callable[..., None], file: Path, out: Path | None, settings: dict[str, Any]) -> Any:
    """What was written, or why not."""
    session = replace(settings["session"], out=out, started=time.monotonic(), written=[])
    try:
        function([file], **{**settings, "session": session})
    except InputError as error:
        return str(error)
    return session.written
