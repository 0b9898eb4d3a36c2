"""A table and a folder of shapes on a Dask cluster of two worker processes, one of which is killed
on the way.

    python -m benchmarks.cluster [--rows 2000000] [--chunks 40] [--shapes 40]

Both are done once more in this process: the largest relative difference of the answers is printed,
with the seconds of both and whether a worker was lost before the end. Rows are noisy points of a
Swiss roll, shapes are random ellipsoids.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import eigenprobe as ep
from eigenprobe.cli import main as command

SPREAD = {
    "n_workers": 2,
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": None,
    "silence_logs": 50,
}
FITTED = 2000  # rows that the estimator is fitted to
K = 8


def rows_of(seed: int, count: int) -> np.ndarray:
    """One chunk of the table."""
    rng = np.random.default_rng(seed)
    t = 3 * np.pi * (1 + 2 * rng.random(count)) / 2
    roll = np.stack([t * np.cos(t), 20 * rng.random(count), t * np.sin(t)], 1)
    return (roll + 0.05 * rng.normal(size=roll.shape)).astype(np.float32)


@contextmanager
def losing_one(client: Any, begun: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Kill one of the workers as soon as ``begun``; tells which, and which there are afterwards."""
    told: dict[str, Any] = {"killed": None}
    ended = threading.Event()
    victim = next(iter(client.run(os.getpid).values()))

    def watch() -> None:
        while not ended.wait(0.05):
            if begun():
                os.kill(victim, signal.SIGKILL)
                told["killed"] = victim
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield told
    finally:
        ended.set()
        thread.join()
        told["after"] = sorted(client.run(os.getpid).values())


def table(client: Any, rows: int, chunks: int) -> dict[str, Any]:
    """A lazy `transform` on the workers against the same rows in memory."""
    import dask
    import dask.array as da

    count = rows // chunks
    blocks = [
        da.from_delayed(dask.delayed(rows_of)(seed, count), (count, 3), dtype=np.float32)
        for seed in range(chunks)
    ]
    lazy = da.concatenate(blocks)
    model = ep.OptimalApproximationEigenmaps(K, solver="direct", random_state=0)
    model.fit(rows_of(chunks, FITTED))
    placed = model.transform(lazy)
    done = [client.compute(block) for block in placed.to_delayed().ravel()]
    with losing_one(client, lambda: any(future.status == "finished" for future in done)) as told:
        start = time.perf_counter()
        found = np.concatenate(client.gather(done))
        seconds = time.perf_counter() - start
    start = time.perf_counter()
    alone = np.concatenate([model.transform(rows_of(seed, count)) for seed in range(chunks)])
    return {
        "rows": rows,
        "chunks": chunks,
        "chunked": placed.numblocks[0],
        "worst": float(np.abs(found - alone).max() / np.abs(alone).max()),
        "seconds": seconds,
        "alone": time.perf_counter() - start,
        "lost": told["killed"] is not None and told["killed"] not in told["after"],
    }


def folder(client: Any, shapes: int, place: Path) -> dict[str, Any]:
    """`eigenprobe decompose folder --scheduler ADDRESS` against `decompose` of every file."""
    rng, clouds = np.random.default_rng(0), {}
    (place / "shapes").mkdir()
    for number in range(shapes):
        x = rng.normal(size=(1000 + 20 * number, 3))
        clouds[f"{number:02d}"] = x / np.linalg.norm(x, axis=1, keepdims=True) * (1 + rng.random(3))
        np.save(place / "shapes" / f"{number:02d}.npy", clouds[f"{number:02d}"])
    out = place / "out"
    words = ["decompose", str(place / "shapes"), "-k", "20", "--no-report", "--out", str(out)]
    with losing_one(client, lambda: any(out.glob("*/basis.safetensors"))) as told:
        start = time.perf_counter()
        code = command([*words, "--scheduler", client.scheduler.address])
        seconds = time.perf_counter() - start
    start, worst = time.perf_counter(), 0.0
    for name, cloud in clouds.items():
        alone, found = ep.decompose(cloud, 20), ep.Basis.load(out / name / "basis.safetensors")
        worst = max(worst, float(np.abs(found.eigenvalues[1:] / alone.eigenvalues[1:] - 1).max()))
    return {
        "shapes": shapes,
        "exit": code,
        "worst": worst,
        "seconds": seconds,
        "alone": time.perf_counter() - start,
        "lost": told["killed"] is not None and told["killed"] not in told["after"],
    }


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("rows", 2_000_000), ("chunks", 40), ("shapes", 40)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with (
        LocalCluster(**SPREAD) as local,
        Client(local) as client,
        tempfile.TemporaryDirectory() as place,
    ):
        for name, call in (
            ("folder", lambda: folder(client, options.shapes, Path(place))),
            ("table", lambda: table(client, options.rows, options.chunks)),
        ):
            print(f"  {name}: {call()}", flush=True)


if __name__ == "__main__":
    main()
