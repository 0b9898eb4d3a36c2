"""The cost model: time and memory of 50 vectors as the number of points grows, beside peers, with
fitted exponents.

    python -m benchmarks.scale                  1k to 1M points in R^3 and rows in R^384
    python -m benchmarks.scale --device cuda    1k to 10M points, to 1M rows, in two minutes
    python -m benchmarks.scale --plot           docs/images/scaling.png (or $OUT) from the files

    seconds ~ n^a,  MiB ~ n^b          least squares in the logarithms, from 10k points on

Methods that are expected to take less than `QUICK` seconds share a process and take turns, `ROUNDS`
rounds after one that warms up: the median and the range are told. Every other cell is a process of
its own, warmed up on a thousand points, in which one call is timed (``runs: 1``). A device counts
its memory itself, so that all is one process there. A method that failed, or is expected to take
longer than `--limit`, is not tried on more points; what `--budget` leaves no time for is left out,
and the seconds that it needs and has are told. The file of results is written after every size.
Points are independent random ones on a bumpy sphere; rows are twenty noisy sheets of five
dimensions, and lie in the memory of the host, whatever the device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eigenprobe as ep
from benchmarks.catalogue import ROOT
from benchmarks.direct import K, direct, embeddings, robust_laplacian, spectral_embedding, surface
from benchmarks.record import clock, facts, peak, results_file, spread, turns, write

TO_A_MILLION = [1000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
SIZES = {
    "cpu": {3: TO_A_MILLION, 384: TO_A_MILLION},
    "cuda": {3: [*TO_A_MILLION, 3_000_000, 10_000_000], 384: TO_A_MILLION},
}
PEERS = {
    3: {"robust_laplacian": "robust_laplacian"},
    384: {"SpectralEmbedding": "sklearn", "UMAP": "umap"},
}
OURS = 600.0  # seconds that a process of our own may take, within the budget
LEAST = 20.0  # seconds that any process has
QUICK, ROUNDS = 2.0, 3  # seconds below which calls take turns, and how often
AGAIN = 5.0  # seconds below which a slow run on a device is repeated
FITTED = 10_000  # points from which the exponents are fitted: below, a fixed cost shows
BUDGET = {"cpu": 450.0, "cuda": 150.0}  # seconds for everything
STACKED = (64, 1500)  # clouds that are solved together, and points of each


def table(rows: torch.Tensor, device: str) -> None:
    """Rows of a table by the estimator."""
    ep.OptimalApproximationEigenmaps(K, solver="direct", device=device).fit(rows.numpy())


def stacked(points: torch.Tensor) -> None:
    """Many clouds in one call."""
    ep.decompose(list(points.view(STACKED[0], -1, 3)), K)


def umap(points: torch.Tensor) -> None:
    from umap import UMAP

    UMAP(n_neighbors=15).fit(points.numpy())


METHODS: dict[str, Callable[[torch.Tensor], None]] = {
    "eigenprobe": direct,
    "stacked": stacked,
    "robust_laplacian": robust_laplacian,
    "SpectralEmbedding": spectral_embedding,
    "UMAP": umap,
}


def cells(
    methods: list[str], n: int, d: int, device: str, seed: int, rounds: int
) -> dict[str, dict[str, Any]]:
    """Seconds, their range and MiB of some methods on ``n`` points, in this process."""
    warnings.simplefilter("ignore")

    def cloud(count: int) -> torch.Tensor:
        made = surface(count, seed) if d == 3 else embeddings(count, d, seed)
        return torch.from_numpy(made).to(device if d == 3 else "cpu")

    points, chosen = (
        cloud(n),
        METHODS | ({} if d == 3 else {"eigenprobe": partial(table, device=device)}),
    )
    calls = {name: partial(chosen[name], points) for name in methods}
    if rounds > 1:
        timed = turns(calls, rounds, device)
        return {
            name: {
                "seconds": row["seconds"],
                "range": row["range"],
                "runs": rounds,
                "MiB": peak(calls[name], device),
            }
            for name, row in timed.items()
        }
    for name in methods:  # warm
        chosen[name](cloud(STACKED[0] * STACKED[1] if name == "stacked" else 1000))
    return {name: _once(call, device) for name, call in calls.items()}


def _once(call: Callable[[], None], device: str) -> dict[str, Any]:
    """One call, of which time and memory are told together."""
    start = clock(device)
    memory = peak(call, device)
    seconds = clock(device) - start
    if (
        device != "cpu" and seconds < AGAIN
    ):  # once more: the first run of a size makes room in memory
        start = clock(device)
        call()
        seconds = min(seconds, clock(device) - start)
    return {"seconds": seconds, "runs": 1, "MiB": memory}


def spawn(
    options: argparse.Namespace, methods: list[str], n: int, d: int, rounds: int, left: float
) -> dict[str, dict[str, Any]]:
    """Cells, on a processor in a process of their own that has ``left`` seconds; what went wrong is
    in the table.
    """
    arguments = (methods, n, d, options.device, options.seed, rounds)
    if options.device != "cpu":
        try:
            return cells(*arguments)
        except RuntimeError as error:  # out of memory
            return {name: {"failed": str(error).splitlines()[0][:200]} for name in methods}
    command = [sys.executable, "-m", "benchmarks.scale", "--cells", json.dumps(arguments)]
    ours = {"eigenprobe", "stacked"} & {*methods}
    limit = min(
        max(left, LEAST), OURS if ours else 60 + 2 * options.limit
    )  # warm-up, imports, compilation included
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT)
        if not done.returncode:
            return json.loads(done.stdout.splitlines()[-1])
        why = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
    except subprocess.TimeoutExpired:
        why, left = f"over {limit:.0f} s", left - limit
    if len(methods) > 1:  # one of them fails: each on its own
        return {name: spawn(options, [name], n, d, 1, left)[name] for name in methods}
    return {methods[0]: {"failed": why}}


class Table:
    """All cells of one number of coordinates, and how long what is around the calls of each
    took.
    """

    def __init__(self, options: argparse.Namespace, d: int) -> None:
        present = [
            name
            for name, module in PEERS[d].items()
            if options.device == "cpu" and find_spec(module)
        ]
        self.options, self.d = options, d
        self.rows: dict[str, dict[str, Any]] = {name: {} for name in ["eigenprobe", *present]}
        self.around: dict[str, float] = {}

    def fill(self, n: int, end: float) -> None:
        """The cells of one size, which have time until ``end``."""
        tried = [
            name
            for name, found in self.rows.items()
            if not any("failed" in row for row in found.values())
        ]
        found: dict[str, Any] = {
            name: why
            for name in tried
            if (why := self.expected(name, n, end - time.perf_counter()))
        }
        tried = [name for name in tried if name not in found]
        quick = [name for name in tried if self.linear(name, n) < QUICK]
        groups = [(quick, ROUNDS), *(([name], 1) for name in tried if name not in quick)]
        for methods, rounds in (group for group in groups if group[0]):
            start = time.perf_counter()
            found |= spawn(self.options, methods, n, self.d, rounds, end - start)
            spent = (time.perf_counter() - start) / len(methods)
            calls = {
                name: self.calls(found[name].get("seconds", 0.0), rounds > 1) for name in methods
            }
            self.around |= {name: max(0.0, spent - seconds) for name, seconds in calls.items()}
        for name, row in found.items():
            self.rows[name][str(n)] = row
            text = (
                row.get("failed")
                or f"{spread(row, 3):>24} s of {row['runs']} {row['MiB']:9.0f} MiB"
            )
            print(f"  R^{self.d:<3} n = {n:>10,}  {name:18} {text}", flush=True)

    def calls(self, seconds: float, quick: bool) -> float:
        """Seconds of all calls of a method, one of which takes ``seconds``."""
        again = self.options.device != "cpu" and seconds < AGAIN
        return seconds * (ROUNDS + 2 if quick else 1 + again)  # one that warms up, one for memory

    def linear(self, name: str, n: int) -> float:
        """Seconds that a method would take if it grew linearly from the size before; 0 of the
        first.
        """
        before, row = next(reversed(self.rows[name].items()), (n, {"seconds": 0.0}))
        return float(row["seconds"]) * n / int(before)

    def expected(self, name: str, n: int, left: float) -> dict[str, str] | None:
        """Why a method is not tried: if it grew linearly only, it would take longer than it may."""
        if not self.rows[name]:
            return None
        if name != "eigenprobe" and self.linear(name, n) > self.options.limit:
            return {"failed": f"expected to take over {self.options.limit:.0f} s"}
        before, seconds = int(next(reversed(self.rows[name]))), self.linear(name, n)
        need = self.calls(seconds, seconds < QUICK) + self.around[name] * max(
            1.0, n / max(before, FITTED)
        )
        return (
            {"failed": f"left out: needs about {need:.0f} s, has {max(left, 0):.0f}"}
            if need > left
            else None
        )

    def content(self) -> dict[str, Any]:
        powers = {name: exponents(found) for name, found in self.rows.items()}
        return {"d": self.d, "rows": self.rows, "exponents": powers}


def exponents(found: dict[str, Any]) -> dict[str, float]:
    """The powers of n that time and memory grow with."""
    cells = [(int(n), row) for n, row in found.items() if int(n) >= FITTED and "failed" not in row]
    if len(cells) < 2:
        return {}
    size = np.log([n for n, _ in cells])
    return {
        key: float(np.polyfit(size, np.log([row[key] for _, row in cells]), 1)[0])
        for key in ("seconds", "MiB")
    }


def plot(path: Path) -> None:
    """All files of results that there are, as lines of seconds over points."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for device in SIZES:
        file = results_file(f"scale_{device}.json")
        for axis, block in zip(
            axes, json.loads(file.read_text())["tables"] if file.exists() else [], strict=False
        ):
            for name, found in block["rows"].items():
                cells = [
                    (int(n), row["seconds"]) for n, row in found.items() if "failed" not in row
                ]
                if cells:
                    axis.loglog(*zip(*cells, strict=True), "o-", ms=3, label=f"{name}, {device}")
            axis.set(
                xlabel="points" if block["d"] == 3 else f"rows in R^{block['d']}",
                title=f"R^{block['d']}",
            )
            if axis.lines:
                axis.legend(fontsize=7)
    axes[0].set_ylabel(f"seconds, {K} vectors")
    figure.savefig(path, dpi=150)
    print(f"written to {path}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=list(SIZES))
    parser.add_argument(
        "--sizes", type=int, nargs="*", help="points in R^3 instead of the usual ones"
    )
    parser.add_argument(
        "--rows", type=int, nargs="*", help="rows in R^384 instead of the usual ones"
    )
    parser.add_argument("--limit", type=float, default=30.0, help="seconds that a peer may take")
    parser.add_argument("--budget", type=float, help=f"seconds for everything {BUDGET}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", action="store_true", help="draw the results that there are")
    parser.add_argument("--cells", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cells:
        print(json.dumps(cells(*json.loads(options.cells))))
        return
    if not options.plot:
        measure(options)
    plot(
        results_file("scaling.png")
        if os.environ.get("OUT")
        else ROOT / "docs" / "images" / "scaling.png"
    )


def measure(options: argparse.Namespace) -> None:
    """All tables; the file of results is whole after every size."""
    end = time.perf_counter() + (options.budget or BUDGET[options.device])
    clouds, n = STACKED
    together = spawn(
        options, ["stacked"], clouds * n, 3, 1 if options.device == "cpu" else ROUNDS, OURS
    )["stacked"]
    print(f"  {clouds} clouds of {n} points: {together}", flush=True)
    about = facts(
        "scale",
        options.device,
        options,
        seed=options.seed,
        peers=("robust_laplacian", "umap-learn"),
    )
    chosen, tables = {3: options.sizes, 384: options.rows}, []
    for d, usual in SIZES[options.device].items():
        tables.append(Table(options, d))
        for size in usual if chosen[d] is None else chosen[d]:
            tables[-1].fill(size, end)
            content = {"k": K, "tables": [t.content() for t in tables]}
            stack = {"clouds": clouds, "points": n, **together}
            write(f"scale_{options.device}.json", about | content | {"stacked": stack})
        for name, powers in tables[-1].content()["exponents"].items():
            print(
                f"  R^{d}  {name}: "
                + ", ".join(f"{key} ~ n^{value:.2f}" for key, value in powers.items())
            )


if __name__ == "__main__":
    main()
