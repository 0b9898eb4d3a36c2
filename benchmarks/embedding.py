"""Optimal-Approximation Eigenmaps beside its peers: time on digits, new rows, clusters, a million rows.

    python -m benchmarks.embedding                              digits: direct / SpectralEmbedding, network / UMAP
    python -m benchmarks.embedding --new FEATURES.npz ...       fit on half, place the other half
    python -m benchmarks.embedding --clusters FEATURES.npz ... --runs 16 --jobs 2
    python -m benchmarks.embedding --rows 1000000 --solver direct network [--device cuda]

Methods take turns and every one is warmed up first; a time is the least of `--repeats`. The result is added to
$OUT/embedding.json or benchmarks/results/embedding.json, with the command, the date and the device.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.record import best_device, clock, facts, results_file
from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.estimators.rows import read_table
from eigenprobe.evaluation import tables
from eigenprobe.evaluation.clustering import kmeans_scores
from eigenprobe.paper.protocol import Protocol, summarise


def digits(repeats: int) -> list[dict[str, Any]]:
    """Fit times on scikit-learn's digits (1797 x 64), ten components, and how well k-means finds the digits there."""
    from sklearn.datasets import load_digits
    from sklearn.manifold import SpectralEmbedding

    X, y = load_digits(return_X_y=True)
    methods: dict[str, Callable[[], Any]] = {
        "direct": lambda: OptimalApproximationEigenmaps(10, random_state=0),
        "SpectralEmbedding": lambda: SpectralEmbedding(10, random_state=0, affinity="nearest_neighbors"),
        "network": lambda: OptimalApproximationEigenmaps(10, solver="network", random_state=0),
    }
    try:
        import umap

        methods["UMAP"] = lambda: umap.UMAP(n_components=10, random_state=0)
    except ImportError:
        print("umap-learn is not installed: the network has nothing to be compared with")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    embeddings = {}
    for turn in range(repeats + 1):  # the first turn warms up: imports, compilation, thread pools
        for name, build in methods.items():
            start, work = time.perf_counter(), time.process_time()
            embeddings[name] = build().fit_transform(X)
            if turn:
                times[name].append((time.perf_counter() - start, time.process_time() - work))
    peer = {"direct": "SpectralEmbedding", "network": "UMAP"}
    rows = []
    for name in methods:
        row: dict[str, Any] = {"method": name, "seconds": min(times[name])[0], "ratio": None}
        row |= {"CPU seconds": min(work for _, work in times[name]), "CPU ratio": None}  # steadier on a busy machine
        if peer.get(name) in times:
            other = times[peer[name]]
            row["ratio"] = row["seconds"] / min(other)[0]
            row["CPU ratio"] = row["CPU seconds"] / min(work for _, work in other)
        rows.append({**row, **{key: kmeans_scores(embeddings[name], y)[key] for key in ("nmi", "ari")}})
    return rows


def new_rows(path: Path, solvers: list[str], splits: int) -> list[dict[str, Any]]:
    """Label accuracy of ten neighbours in the embedding: fitted on all rows, and on half with the rest placed."""
    table = read_table(path)
    rows = []
    for solver in solvers:
        found = [
            _halves(np.asarray(table.features, np.float32), np.asarray(table.labels), solver, i) for i in range(splits)
        ]
        means = {key: float(np.mean([row[key] for row in found])) for key in ("fitted on all", "fitted on half")}
        loss = [row["fitted on all"] - row["fitted on half"] for row in found]
        row = {"table": path.stem, "solver": solver, "splits": splits, **means}
        row |= {"loss": float(np.mean(loss)), "worst loss": float(np.max(loss))}
        rows.append({**row, "batch difference": f"{max(row['batch difference'] for row in found):.0e}"})
    return rows


def _halves(x: np.ndarray, y: np.ndarray, solver: Any, seed: int) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(x))
    x, y, half = x[order], y[order], len(x) // 2
    whole = OptimalApproximationEigenmaps(10, solver=solver, random_state=seed).fit(x)
    part = OptimalApproximationEigenmaps(10, solver=solver, random_state=seed).fit(x[:half])
    placed = part.transform(x[half:])
    alone = np.concatenate([part.transform(x[half + i : half + i + 1]) for i in range(20)])
    near = KNeighborsClassifier(10)
    return {
        "fitted on all": near.fit(whole.embedding_[:half], y[:half]).score(whole.embedding_[half:], y[half:]),
        "fitted on half": near.fit(part.embedding_, y[:half]).score(placed, y[half:]),
        "batch difference": float(np.abs(alone - placed[:20]).max()),
    }


def clusters(path: Path, methods: list[str], runs: int, jobs: int) -> list[dict[str, Any]]:
    """The paper's protocol: NMI and ARI of k-means, mean over random class-weighted subsets of 1500."""
    table = read_table(path)
    records = Protocol(runs, methods=methods).records(np.asarray(table.features), np.asarray(table.labels), jobs)
    keep = ("nmi", "ari", "trustworthiness", "seconds")
    return [
        {"table": path.stem, "method": row["method"], "k": row["k"], "runs": row["runs"], **{m: row[m] for m in keep}}
        for row in summarise(records)
    ]


def many_rows(n: int, solver: str, device: str, seed: int) -> dict[str, Any]:
    """Fit and transform ``n`` rows of 128 columns from a file on disk: twenty clusters on a noisy sheet each."""
    rng = np.random.default_rng(seed)
    centres, planes = rng.normal(size=(20, 128)) * 2, rng.normal(size=(20, 5, 128))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, 128))
        labels = rng.integers(0, 20, n)
        for start in range(0, n, 1 << 16):
            part = labels[start : start + (1 << 16)]
            sheet = np.einsum("ij,ijk->ik", rng.normal(size=(len(part), 5)), planes[part])
            rows[start : start + len(part)] = centres[part] + sheet + 0.5 * rng.normal(size=(len(part), 128))
        del rows
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        model = OptimalApproximationEigenmaps(10, solver=solver, random_state=seed, device=device)
        start, work = clock(device), time.process_time()
        model.fit(path)
        fitted, work_fitted = clock(device), time.process_time()
        again = model.transform(path)
        placed, work_placed = clock(device), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sample = rng.permutation(n)[:5000]
    return {
        "rows": n,
        "solver": solver,
        "device": device,
        "fit seconds": fitted - start,
        "transform seconds": placed - fitted,
        "fit CPU seconds": work_fitted - work,  # steadier on a busy machine
        "transform CPU seconds": work_placed - work_fitted,
        "fitted rows": model.basis_.n,
        "peak GiB": peak,
        "GPU GiB": torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None,
        "same": bool(np.allclose(again, model.embedding_, atol=1e-5)),
        "ARI": kmeans_scores(again[sample], labels[sample])["ari"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--new", type=Path, nargs="+", default=[], metavar="FEATURES")
    parser.add_argument("--splits", type=int, default=4, help="random halves of --new")
    parser.add_argument("--clusters", type=Path, nargs="+", default=[], metavar="FEATURES")
    parser.add_argument("--methods", nargs="+", default=["direct", "network", "laplacian", "pca", "umap"])
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--solver", nargs="+", default=["direct", "network"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    device = best_device() if options.device == "auto" else options.device
    found: dict[str, list[dict[str, Any]]] = {}
    for path in options.new:
        found.setdefault("new rows", []).extend(new_rows(path, options.solver, options.splits))
    for path in options.clusters:
        found.setdefault("clusters", []).extend(clusters(path, options.methods, options.runs, options.jobs))
    if options.rows:
        found["many rows"] = [many_rows(options.rows, solver, device, 0) for solver in options.solver]
    if not found:
        found["digits"] = digits(options.repeats)
    for name, rows in found.items():
        print(f"\n{name}\n{tables.markdown(rows)}", flush=True)
    target = results_file("embedding.json")
    stored = json.loads(target.read_text()) if target.is_file() else {}
    for key, rows in found.items():
        stored[f"{key}, {device}"] = facts("embedding", device) | {"rows": tables.plain(rows)}
    target.write_text(json.dumps(stored, indent=2) + "\n")


if __name__ == "__main__":
    main()
