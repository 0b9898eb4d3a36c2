"""Optimal-Approximation Eigenmaps beside its peers: time on digits, new rows, a million rows.

    python -m benchmarks.embedding                      digits, by four methods
    python -m benchmarks.embedding FEATURES.npz ...     and new rows: fit on half, place the rest
    python -m benchmarks.embedding --rows 1000000       and fit and place a million rows of a file
    python -m benchmarks.embedding --parts many         the million rows alone

Methods take turns in one process: median and range, and ratios turn by turn. ``cold`` is the first
call of a method in a process of its own, imports and compilation included (numba compiles UMAP for
longer than it runs). Defaults were chosen on digits and on the even rows of tables: digits are for
times only, and tables are read at their odd rows. Parts that an earlier run has measured on the
same sources and device stay in the file, each with its own command and date.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.record import (
    best_device,
    clock,
    earlier,
    existing,
    facts,
    peak,
    ratios,
    spread,
    turns,
    write,
)
from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.host.files import plain
from eigenprobe.io.tables import read_table
from eigenprobe_lab.evaluation import reports as tables
from eigenprobe_lab.evaluation.clustering import kmeans_scores

PEERS = {"direct": "SpectralEmbedding", "network": "UMAP"}


@cache
def written_digits() -> np.ndarray:
    """Unpacking them takes as long as a fifth of a fit: once."""
    return np.asarray(load_digits(return_X_y=True)[0])


def fit(name: Any) -> None:
    """Embed scikit-learn's digits (1797 x 64) in ten coordinates by one method; all of them compare
    rows by angle.
    """
    x = written_digits()
    if name == "UMAP":
        import umap

        umap.UMAP(n_components=10, random_state=0, n_jobs=1, metric="cosine").fit(x)
    elif name == "SpectralEmbedding":
        from sklearn.manifold import SpectralEmbedding

        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        SpectralEmbedding(10, random_state=0, affinity="nearest_neighbors", n_neighbors=12).fit(x)
    else:
        OptimalApproximationEigenmaps(10, solver=name, random_state=0).fit(x)


def digits(repeats: int) -> list[dict[str, Any]]:
    """Fit times, cold and warm, and ratios to the peer."""
    names = [
        name
        for name in ("direct", *PEERS.values(), "network")
        if name != "UMAP" or find_spec("umap") is not None
    ]
    found = turns({name: partial(fit, name) for name in names}, repeats)
    rows = []
    for name in names:
        row: dict[str, Any] = {
            "method": name,
            "seconds": spread(found[name]),
            "CPU seconds": found[name]["cpu"],
        }
        row |= {"cold": _cold(name), "ratio": None, "CPU ratio": None}
        if PEERS.get(name) in found:
            row["ratio"] = spread(ratios(found, name, PEERS[name]), key="median")
            row["CPU ratio"] = spread(ratios(found, name, PEERS[name], "busy"), key="median")
        rows.append(row)
    return rows


def _cold(name: str) -> float:
    """Seconds of one call in a process that has loaded nothing but this module."""
    code = "from benchmarks.embedding import *; start = clock('cpu'); "
    code += f"fit({name!r}); print(clock('cpu') - start)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    return float(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
    )


def new_rows(path: Path, solver: str, splits: int) -> dict[str, Any]:
    """Label accuracy of ten neighbours in the embedding: fitted on all odd rows, and on half with
    the rest placed.
    """
    table = read_table(path)
    x, y = np.asarray(table.features[1::2], np.float32), np.asarray(table.labels)[1::2]
    found = [_halves(x, y, solver, i) for i in range(splits)]
    means = {
        key: float(np.mean([row[key] for row in found]))
        for key in ("fitted on all", "fitted on half")
    }
    loss = [row["fitted on all"] - row["fitted on half"] for row in found]
    row = {"table": path.stem, "solver": solver, "splits": splits, **means}
    row |= {"loss": float(np.mean(loss)), "worst loss": float(np.max(loss))}
    return {**row, "batch difference": f"{max(row['batch difference'] for row in found):.0e}"}


def _halves(x: np.ndarray, y: np.ndarray, solver: Any, seed: int) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(x))
    x, y, half = x[order], y[order], len(x) // 2
    whole = OptimalApproximationEigenmaps(10, solver=solver, random_state=seed).fit(x)
    part = OptimalApproximationEigenmaps(10, solver=solver, random_state=seed).fit(x[:half])
    placed = part.transform(x[half:])
    alone = np.concatenate([part.transform(x[half + i : half + i + 1]) for i in range(20)])
    near = KNeighborsClassifier(10)
    return {
        "fitted on all": near.fit(whole.embedding_[:half], y[:half]).score(
            whole.embedding_[half:], y[half:]
        ),
        "fitted on half": near.fit(part.embedding_, y[:half]).score(placed, y[half:]),
        "batch difference": float(np.abs(alone - placed[:20]).max()),
    }


def many_rows(n: int, solver: str, device: str, seed: int) -> dict[str, Any]:
    """Fit and transform ``n`` rows of 128 columns from a file on disk: twenty clusters on a noisy
    sheet each; then place a tenth as many new rows, and take in a thousandth as many."""
    rng = np.random.default_rng(seed)
    centres, planes = rng.normal(size=(20, 128)) * 2, rng.normal(size=(20, 5, 128))

    def drawn(part: np.ndarray) -> np.ndarray:
        sheet = np.einsum("ij,ijk->ik", rng.normal(size=(len(part), 5)), planes[part])
        return centres[part] + sheet + 0.5 * rng.normal(size=(len(part), 128))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, 128))
        labels = rng.integers(0, 20, n)
        for start in range(0, n, 1 << 16):
            part = labels[start : start + (1 << 16)]
            rows[start : start + len(part)] = drawn(part)
        del rows
        model = OptimalApproximationEigenmaps(10, solver=solver, random_state=seed, device=device)
        start, work = clock(device), time.process_time()
        used = peak(lambda: model.fit(path), device)
        fitted, work_fitted = clock(device), time.process_time()
        again = model.transform(path)
        placed, work_placed = clock(device), time.process_time()
    sample, fitted_rows, same = (
        rng.permutation(n)[:5000],
        model.basis_.n,
        np.allclose(again, model.embedding_, atol=1e-5),
    )
    new = drawn(rng.integers(0, 20, n // 10)).astype(np.float32)
    start_new, work_new = clock(device), time.process_time()
    model.transform(new)
    end_new, work_grow = clock(device), time.process_time()
    if solver == "direct":
        model.partial_fit(new[: n // 1000])
    grown, work_grown = clock(device), time.process_time()
    return {
        "rows": n,
        "solver": solver,
        "device": device,
        "fit seconds": fitted - start,
        "transform seconds": placed - fitted,
        "fit CPU seconds": work_fitted - work,  # steadier on a busy machine
        "transform CPU seconds": work_placed - work_fitted,
        "new rows seconds": end_new - start_new,  # a tenth as many
        "new rows CPU seconds": work_grow - work_new,
        "partial_fit seconds": grown - end_new,  # of a thousandth as many
        "partial_fit CPU seconds": work_grown - work_grow,
        "fitted rows": fitted_rows,
        "fit MiB": used,
        "same": bool(same),
        "ARI": kmeans_scores(again[sample], labels[sample])["ari"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "features", type=existing, nargs="*", help="tables with labels, for new rows"
    )
    parser.add_argument("--splits", type=int, default=4, help="random halves of each")
    parser.add_argument("--rows", type=int, default=0, help="rows of the large table, 0 for none")
    parser.add_argument(
        "--parts", nargs="+", choices=("digits", "new", "many"), help="these alone (a million rows)"
    )
    parser.add_argument(
        "--solver", nargs="+", help="direct, network (both; of many rows on a processor direct)"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    device = best_device() if options.device == "auto" else options.device
    solvers = options.solver or ["direct", "network"]
    many = options.solver or (
        ["direct"] if device == "cpu" else solvers
    )  # a network takes eight minutes there
    asked = options.parts or [
        "digits",
        *(["new"] if options.features else []),
        *(["many"] if options.rows else []),
    ]
    count = options.rows or 1_000_000
    every: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
        "digits": lambda: digits(options.repeats) if device == "cpu" else [],
        "new rows": lambda: (
            new_rows(p, s, options.splits) for p in options.features for s in solvers
        ),
        "many rows": lambda: (many_rows(count, solver, device, 0) for solver in many),
    }
    name, about = (
        f"embedding_{device.split(':')[0]}.json",
        facts("embedding", device, options, peers=("umap-learn",)),
    )
    found, made = (earlier(name, about["device"]).get(key, {}) for key in ("parts", "made"))
    for part, rows in every.items():
        if part.split()[0] not in asked:
            continue
        told: list[Any] = []
        for row in rows():
            told.append(plain(row))
            found[part], made[part] = (
                told,
                {key: about[key] for key in ("command", "commit", "date")},
            )
            write(name, about | {"parts": found, "made": made})  # whole after every row
        if told:
            print(f"\n{part}\n{tables.markdown(told)}", flush=True)


if __name__ == "__main__":
    main()
