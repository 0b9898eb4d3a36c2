"""Maps in two dimensions and ten coordinates of tables, beside UMAP with the cosine metric.

    python -m benchmarks.maps FEATURES.npz ... [--runs 4] [--seed 0]
    python -m benchmarks.maps FEATURES.npz --seconds     the seconds of 10,000 rows only

Subsets of 1500 rows, uniform and class-weighted (the paper's protocol), and digits: means and
standard deviations of the adjusted Rand index of k-means and of HDBSCAN (groups of at least 15
rows), of the accuracy of 5 nearest neighbours (half of the rows for the other half), of
trustworthiness and of random triplets, whose nearer row is nearer in the embedding as well; medians
and ranges of seconds and CPU seconds. Last, seconds of a map of 10,000 rows. Both methods are warm
and take turns. Defaults were chosen on even rows: subsets are of odd ones.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import earlier, existing, facts, turns, write
from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.host.files import plain
from eigenprobe.io.tables import read_table
from eigenprobe_lab.evaluation import reports as tables
from eigenprobe_lab.evaluation.clustering import kmeans_scores, trustworthiness
from eigenprobe_lab.paper.images import weighted_subset

ROWS, LARGE, COORDINATES = 1500, 10_000, 10
TURNS = 3  # of 10,000 rows, after one that warms up
SMALLEST_GROUP = 15  # of HDBSCAN
TRIPLETS = 20_000
SCORES = ("k-means ARI", "HDBSCAN ARI", "kNN accuracy", "trustworthiness", "triplets")
Method = Callable[[np.ndarray, int], np.ndarray]


def layout(x: np.ndarray, seed: int) -> np.ndarray:
    return OptimalApproximationEigenmaps(random_state=seed).fit(x).layout_


def umap(x: np.ndarray, seed: int) -> np.ndarray:
    return _umap(x, seed, 2)


def coordinates(x: np.ndarray, seed: int) -> np.ndarray:
    return OptimalApproximationEigenmaps(COORDINATES, random_state=seed).fit(x).embedding_


def umap_coordinates(x: np.ndarray, seed: int) -> np.ndarray:
    return _umap(x, seed, COORDINATES)


def _umap(x: np.ndarray, seed: int, dimensions: int) -> np.ndarray:
    from umap import UMAP

    return np.asarray(
        UMAP(n_components=dimensions, metric="cosine", random_state=seed, n_jobs=1).fit_transform(x)
    )


def scores(x: np.ndarray, labels: np.ndarray, y: np.ndarray) -> list[float]:
    """The `SCORES` of places ``y`` of rows ``x`` of length one."""
    from sklearn.cluster import HDBSCAN
    from sklearn.metrics import adjusted_rand_score
    from sklearn.neighbors import KNeighborsClassifier

    found = HDBSCAN(min_cluster_size=SMALLEST_GROUP, copy=True).fit_predict(y)
    near = KNeighborsClassifier().fit(y[::2], labels[::2]).score(y[1::2], labels[1::2])
    clustered = [kmeans_scores(y, labels)["ari"], float(adjusted_rand_score(labels, found))]
    return [*clustered, float(near), trustworthiness(x, y), triplets(x, y)]


def triplets(x: np.ndarray, y: np.ndarray) -> float:
    """The share of random triplets (i, j, k) of which the nearer to i is the same among ``x`` and
    ``y``.
    """
    i, j, k = np.random.default_rng(0).integers(len(x), size=(3, TRIPLETS))

    def nearer(z: np.ndarray) -> np.ndarray:
        return np.linalg.norm(z[i] - z[j], axis=1) < np.linalg.norm(z[i] - z[k], axis=1)

    return float((nearer(x) == nearer(y)).mean())


def load(path: Path | None) -> tuple[str, np.ndarray, np.ndarray]:
    """The odd rows of a table, or all digits."""
    if path is None:
        from sklearn.datasets import load_digits

        return "digits", *load_digits(return_X_y=True)
    table = read_table(path)
    return path.stem, np.asarray(table.features)[1::2], np.asarray(table.labels)[1::2]


def compare(
    path: Path | None, runs: int, seed: int, pairs: dict[str, Method] | None = None
) -> list[dict[str, Any]]:
    """One row per sampling and method over the subsets of a table."""
    name, features, labels = load(path)
    methods = pairs or {"layout": layout, "UMAP": umap}
    for method in methods.values():
        method(np.asarray(features[:300], np.float32), 0)
    rows = []
    for sampling in ("uniform", "weighted"):
        found: dict[str, list[list[float]]] = {each: [] for each in methods}
        for run in range(runs):
            rng = np.random.default_rng([seed, run])
            size = min(ROWS, len(labels))
            chosen = (
                rng.permutation(len(labels))[:size]
                if sampling == "uniform"
                else weighted_subset(labels, size, rng)
            )
            x = np.asarray(features[chosen], np.float32)
            unit = x / np.linalg.norm(x, axis=1, keepdims=True)
            for each, method in methods.items():
                y, spent = _timed(method, x, run)
                found[each].append([*scores(unit, labels[chosen], y), *spent])
        about = {"table": name, "rows": sampling}
        rows += [
            about | {"method": each, "runs": runs, **summary(part)} for each, part in found.items()
        ]
    return rows


def large(seed: int) -> list[dict[str, Any]]:
    """Medians of the seconds of maps of 10,000 rows: twenty Gaussian groups in 64 columns."""
    rng = np.random.default_rng(seed)
    x = (
        rng.standard_normal((LARGE, 64))
        + 2 * rng.standard_normal((20, 64))[rng.integers(20, size=LARGE)]
    )
    x = x.astype(np.float32)
    found = turns({"layout": lambda: layout(x, seed), "UMAP": lambda: umap(x, seed)}, TURNS)
    return [
        {"rows": LARGE, "method": name, "seconds": row["seconds"], "CPU seconds": row["cpu"]}
        for name, row in found.items()
    ]


def _timed(method: Method, x: np.ndarray, seed: int) -> tuple[np.ndarray, list[float]]:
    start, work = time.perf_counter(), time.process_time()
    y = method(x, seed)
    return y, [time.perf_counter() - start, time.process_time() - work]


def summary(rows: list[list[float]]) -> dict[str, float]:
    """Scores and times of all subsets ``(runs, 7)``, each with its spread."""
    parts, times = np.split(np.array(rows), [len(SCORES)], axis=1)
    found: dict[str, float] = {}
    for name, part in zip(SCORES, parts.T, strict=True):
        found |= {name: part.mean(), f"± {name}": part.std()}
    for name, part in zip(("seconds", "CPU seconds"), times.T, strict=True):
        found |= {name: np.median(part), f"least {name}": part.min(), f"most {name}": part.max()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("features", type=existing, nargs="+", help="tables with labels")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds",
        action="store_true",
        help="measure 10,000 rows only and keep the rest of the file",
    )
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    parts: dict[str, list[dict[str, Any]]] = {"maps": [], "coordinates": []}
    ten: dict[str, Method] = {
        f"{COORDINATES} coordinates": coordinates,
        f"UMAP in {COORDINATES}": umap_coordinates,
    }
    made = facts("maps", "cpu", options, peers=("umap-learn", "openTSNE"))
    if options.seconds:
        known = earlier("maps.json", made["device"])
        parts = {**known.get("parts", {}), "seconds": large(options.seed)}
        print(tables.markdown(parts["seconds"]), flush=True)
        own = {name: made[name] for name in ("command", "date", "commit")}
        write(
            "maps.json",
            (known or made)
            | {"parts": plain(parts), "made": {**known.get("made", {}), "seconds": own}},
        )
        return
    for path in [None, *options.features]:
        parts["maps"] += compare(path, options.runs, options.seed)
        parts["coordinates"] += compare(path, options.runs, options.seed, ten)
        print(tables.markdown(parts["maps"][-4:] + parts["coordinates"][-4:]), flush=True)
    parts["seconds"] = large(options.seed)
    print(tables.markdown(parts["seconds"]), flush=True)
    write("maps.json", made | {"parts": plain(parts)})


if __name__ == "__main__":
    main()
