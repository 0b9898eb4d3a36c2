"""The paper's evaluation of manifold learning: many unevenly weighted subsets, many methods, seven scores.

    class weights w (c,):  entropy deficit  1 - H(w)/log c  uniform in a range
    subset: n rows without replacement, classes by w
    record: run, method, k, seven clustering scores, trustworthiness, seconds

Rows of 64 columns or more are scaled to length one first, for every method alike: neighbours are then those of the
cosine distance, which [P] and our estimator use.

[P] draws "random class weights with entropy in the range [0.01, 0.1]". An entropy below 0.1 would put
nearly all rows in one class, which its scores exclude, so the range is read as the relative deficit from the largest
entropy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import entropy

from eigenprobe.errors import InputError
from eigenprobe.estimators.coordinates import COSINE_COLUMNS
from eigenprobe.host.progress import in_parallel
from eigenprobe.host.tables import Row, grouped
from eigenprobe.readers.mesh import Array

from ..evaluation.clustering import METRICS, kmeans_scores, trustworthiness
from .peers import FITTED, METHODS, Fitted, check_methods, embed

DEFICIT = (0.01, 0.1)
SCORES = (*METRICS, "trustworthiness", "seconds")


def class_weights(count: int, rng: np.random.Generator, deficit: tuple[float, float] = DEFICIT) -> Array:
    """Weights ``softmax(s g)``, g normal, with ``s`` such that the entropy deficit is a uniform draw from the range."""
    if count < 2:
        return np.ones(count)
    target, g = rng.uniform(*deficit), rng.standard_normal(count)
    # The deficit grows with the scale from 0 to 1; where two classes nearly tie it takes a large one.
    scale = brentq(lambda s: 1 - entropy(softmax(s * g), base=count) - target, 0, 1e9, xtol=1e-12, maxiter=500)
    return softmax(scale * g)


def weighted_subset(labels: Array, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``n`` rows without replacement, classes by random weights; a class that runs out leaves its share."""
    classes, codes = np.unique(labels, return_inverse=True)
    weights, room = class_weights(len(classes), rng), np.bincount(codes)
    if n > len(labels):
        raise InputError(f"a subset of {n} rows needs at least as many, got {len(labels)}")
    counts = np.minimum(rng.multinomial(n, weights), room)
    while counts.sum() < n:
        left = np.maximum(weights, 1e-12) * (room > counts)
        counts = np.minimum(counts + rng.multinomial(n - counts.sum(), left / left.sum()), room)
    rows = [rng.choice(np.flatnonzero(codes == c), counts[c], replace=False) for c in range(len(classes))]
    return rng.permutation(np.concatenate(rows))


@dataclass(frozen=True)
class Protocol:
    """``runs`` subsets of ``n`` rows, embedded in ``ks`` dimensions by ``methods``; ``unit`` scales wide rows."""

    runs: int = 32
    n: int = 1500
    ks: Sequence[int] = (2, 5, 10)
    methods: Sequence[str] = tuple(name for name in METHODS if name not in FITTED)
    seed: int = 0
    unit: bool = True

    def __post_init__(self) -> None:
        check_methods(self.methods)
        if self.runs < 1 or not self.ks or min(self.ks) < 1:
            raise InputError(f"runs and ks must be positive, got {self.runs} and {list(self.ks)}")

    def subset(self, labels: Array, run: int) -> NDArray[np.int64]:
        """The rows of one run."""
        return weighted_subset(labels, min(self.n, len(labels)), np.random.default_rng([self.seed, run]))

    def records(
        self, features: Array, labels: Array, jobs: int = 1, fitted: Fitted | None = None
    ) -> list[dict[str, Any]]:
        """One record for each run, method and k; the same whatever ``jobs``, the number of processes.

        ``fitted`` are functions from rows to coordinates by method: those of `FITTED`.
        """
        if len(features) != len(labels):
            raise InputError(f"features and labels must be of one length, got {len(features)} and {len(labels)}")
        subsets = [self.subset(labels, run) for run in range(self.runs)]
        tasks = (
            (self.rows(features, rows), labels[rows], name, run, fitted)
            for run, rows in enumerate(subsets)
            for name in self.methods
        )
        results = in_parallel(self._one, tasks, "runs", self.runs * len(self.methods), jobs)
        return [record for result in results for record in result]

    def rows(self, features: Array, chosen: Array) -> Array:
        """Some rows in single precision, of length one where asked."""
        x = np.asarray(features[chosen], np.float32)
        if not self.unit or x.shape[1] < COSINE_COLUMNS:
            return x
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)

    def _one(self, features: Array, labels: Array, name: str, run: int, fitted: Fitted | None) -> list[dict[str, Any]]:
        """One method on one subset. A method that fails loses this run, not the table."""
        base: dict[str, Any] = {"run": run, "method": name}
        try:
            embeddings, seconds = embed(name, features, self.ks, self.seed + run, fitted)
        except (ValueError, RuntimeError, ArithmeticError) as error:
            if isinstance(error, InputError) and "pip install" in str(error):
                raise
            return [{**base, "k": k, "error": str(error).splitlines()[0]} for k in self.ks]
        records: list[dict[str, Any]] = []
        for k in self.ks:
            scores = kmeans_scores(embeddings[k], labels, seed=self.seed)
            scores["trustworthiness"] = trustworthiness(features, embeddings[k])
            records.append({**base, "k": k, **scores, "seconds": seconds[k]})
        return records


def summarise(records: Sequence[Row], metrics: Sequence[str] = SCORES) -> list[dict[str, Any]]:
    """Mean and deviation (``<metric>_std``) over the runs, one row for each k and method, in the order they came."""
    rows = []
    good = sorted((record for record in records if "error" not in record), key=lambda record: record["k"])
    for (k, method), group in grouped(good, "k", "method").items():
        row: dict[str, Any] = {"method": method, "k": k, "runs": len(group)}
        for metric in metrics:
            values = np.array([record[metric] for record in group], float)
            row |= {metric: float(values.mean()), f"{metric}_std": float(values.std())}
        rows.append(row)
    return rows
