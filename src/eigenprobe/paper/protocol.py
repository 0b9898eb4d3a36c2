"""The paper's evaluation of manifold learning: many unevenly weighted subsets, many methods, seven scores.

    class weights w (c,):  entropy deficit  1 - H(w)/log c  uniform in a range
    subset: n rows without replacement, classes by w
    record: run, method, k, seven clustering scores, trustworthiness, seconds

[P] draws "random class weights with entropy in the range [0.01, 0.1]". An entropy below 0.1 would put
nearly all rows in one class, which its scores exclude, so the range is read as the relative deficit from the largest
entropy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..evaluation.clustering import METRICS, kmeans_scores, trustworthiness
from ..evaluation.tables import Row
from ..progress import Progress
from .peers import METHODS, TITLES, check_methods

Array = NDArray[Any]
DEFICIT = (0.01, 0.1)


def class_weights(count: int, rng: np.random.Generator, deficit: tuple[float, float] = DEFICIT) -> Array:
    """Weights ``softmax(s g)``, g normal, with ``s`` such that the entropy deficit is a uniform draw from the range."""
    if count < 2:
        return np.ones(count)
    target, g = rng.uniform(*deficit), rng.standard_normal(count)
    low, high = 0.0, 64.0
    for _ in range(60):  # the deficit grows with the scale: bisection
        scale = (low + high) / 2
        weights = np.exp(scale * (g - g.max()))
        weights /= weights.sum()
        entropy = -np.sum(weights * np.log(np.maximum(weights, 1e-300)))
        low, high = (scale, high) if 1 - entropy / np.log(count) < target else (low, scale)
    return weights


def weighted_subset(
    labels: Array, n: int, rng: np.random.Generator, deficit: tuple[float, float] = DEFICIT
) -> NDArray[np.int64]:
    """``n`` rows without replacement, classes by random weights; a class that runs out leaves its share."""
    classes, codes = np.unique(labels, return_inverse=True)
    weights, room = class_weights(len(classes), rng, deficit), np.bincount(codes)
    if n > len(labels):
        raise InputError(f"a subset of {n} rows needs at least as many, got {len(labels)}")
    counts = np.minimum(rng.multinomial(n, weights), room)
    while counts.sum() < n:
        left = np.maximum(weights, 1e-12) * (room > counts)
        counts = np.minimum(counts + rng.multinomial(n - counts.sum(), left / left.sum()), room)
    rows = [rng.choice(np.flatnonzero(codes == c), counts[c], replace=False) for c in range(len(classes))]
    return rng.permutation(np.concatenate(rows))


def run_protocol(
    features: Array,
    labels: Array,
    *,
    runs: int = 32,
    n: int = 1500,
    ks: Sequence[int] = (2, 5, 10),
    methods: Sequence[str] = tuple(METHODS),
    seed: int = 0,
    jobs: int = 1,
    deficit: tuple[float, float] = DEFICIT,
) -> list[dict[str, Any]]:
    """One record for each run, method and k; the same whatever ``jobs``, the number of processes."""
    from joblib import Parallel, delayed

    names, ks = check_methods(methods), sorted(ks)
    if len(features) != len(labels):
        raise InputError(f"features and labels must be of one length, got {len(features)} and {len(labels)}")
    if runs < 1 or not ks or ks[0] < 1:
        raise InputError(f"runs and ks must be positive, got {runs} and {list(ks)}")
    n = min(n, len(labels))
    subsets = [weighted_subset(labels, n, np.random.default_rng([seed, run]), deficit) for run in range(runs)]
    calls = (
        delayed(_one)(np.asarray(features[rows], np.float32), labels[rows], name, ks, run, seed)
        for run, rows in enumerate(subsets)
        for name in names
    )
    records: list[dict[str, Any]] = []
    with Progress("runs", total=runs * len(names)) as bar:
        results: Iterable[list[dict[str, Any]]] = Parallel(n_jobs=jobs, return_as="generator")(calls)
        for result in results:
            records += result
            bar.advance(note=TITLES[result[0]["method"]])
    return records


def _one(features: Array, labels: Array, name: str, ks: Sequence[int], run: int, seed: int) -> list[dict[str, Any]]:
    """One method on one subset. A method that fails loses this run, not the table."""
    base = {"run": run, "method": name}
    try:
        embeddings, seconds = METHODS[name](features, ks, seed + run)
    except (ValueError, RuntimeError, ArithmeticError) as error:
        if isinstance(error, InputError) and "pip install" in str(error):
            raise
        return [{**base, "k": k, "error": str(error).splitlines()[0]} for k in ks]
    return [
        {
            **base,
            "k": k,
            **kmeans_scores(embeddings[k], labels, seed=seed),
            "trustworthiness": trustworthiness(features, embeddings[k]),
            "seconds": seconds[k],
        }
        for k in ks
    ]


def summarise(records: Sequence[Row], metrics: Sequence[str] = (*METRICS, "trustworthiness", "seconds")) -> list[Row]:
    """Mean and deviation (``<metric>_std``) over the runs, one row for each k and method, in the order they came."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for record in records:
        if "error" not in record:
            groups.setdefault((record["k"], record["method"]), []).append(record)
    rows: list[Row] = []
    for (k, method), group in sorted(groups.items(), key=lambda item: item[0][0]):
        row: dict[str, Any] = {"method": method, "k": k, "runs": len(group)}
        for metric in metrics:
            values = np.array([record[metric] for record in group], float)
            row[metric], row[f"{metric}_std"] = float(values.mean()), float(values.std())
        rows.append(row)
    return rows
