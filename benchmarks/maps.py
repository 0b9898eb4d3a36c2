"""Maps of embeddings in two dimensions: `layout_` beside UMAP with the cosine metric.

    python -m benchmarks.maps FEATURES.npz ... [--runs 16] [--seed 0]

Random class-weighted subsets of 1500 rows (the paper's protocol): means and standard deviations of NMI and ARI of
k-means on the map and of trustworthiness; medians and ranges of the seconds and CPU seconds of a subset. Both methods
are warm and take turns. The affinities and stages of the layout were chosen on even rows: subsets are of odd ones.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import facts, write
from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.host import tables
from eigenprobe.host.files import plain
from eigenprobe.readers.tables import read_table
from eigenprobe_lab.evaluation.clustering import kmeans_scores, trustworthiness
from eigenprobe_lab.paper.protocol import weighted_subset

COMPONENTS, ROWS = 50, 1500
SCORES = ("NMI", "ARI", "trustworthiness")


def layout(x: np.ndarray, seed: int) -> np.ndarray:
    return OptimalApproximationEigenmaps(COMPONENTS, random_state=seed).fit(x).layout_


def umap(x: np.ndarray, seed: int) -> np.ndarray:
    from umap import UMAP

    return np.asarray(UMAP(metric="cosine", random_state=seed, n_jobs=1).fit_transform(x))


def compare(path: Path, runs: int, seed: int) -> list[dict[str, Any]]:
    """One row per method over the subsets of a table."""
    table = read_table(path)
    features, labels = np.asarray(table.features)[1::2], np.asarray(table.labels)[1::2]
    methods: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {"layout": layout, "UMAP": umap}
    for method in methods.values():
        method(np.asarray(features[:300], np.float32), 0)
    found: dict[str, list[list[float]]] = {name: [] for name in methods}
    for run in range(runs):
        chosen = weighted_subset(labels, min(ROWS, len(labels)), np.random.default_rng([seed, run]))
        x = np.asarray(features[chosen], np.float32)
        for name, method in methods.items():
            start, work = time.perf_counter(), time.process_time()
            y = method(x, run)
            spent = [time.perf_counter() - start, time.process_time() - work]
            scores = kmeans_scores(y, labels[chosen])
            found[name].append([scores["nmi"], scores["ari"], trustworthiness(x, y), *spent])
    return [{"table": path.stem, "method": name, "runs": runs, **summary(rows)} for name, rows in found.items()]


def summary(rows: list[list[float]]) -> dict[str, float]:
    """Scores and times of all subsets ``(runs, 5)``, each with its spread."""
    scores, times = np.split(np.array(rows), [len(SCORES)], axis=1)
    found: dict[str, float] = {}
    for name, part in zip(SCORES, scores.T, strict=True):
        found |= {name: part.mean(), f"± {name}": part.std()}
    for name, part in zip(("seconds", "CPU seconds"), times.T, strict=True):
        found |= {name: np.median(part), f"least {name}": part.min(), f"most {name}": part.max()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path, nargs="+", help="tables with labels")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    for path in options.features:
        rows += compare(path, options.runs, options.seed)
        print(tables.markdown(rows[-2:]), flush=True)
    write("maps.json", facts("maps", "cpu", options, peers=("umap-learn", "openTSNE")) | {"rows": plain(rows)})


if __name__ == "__main__":
    main()
