"""The paper's evaluation of Optimal-Approximation Eigenmaps on features of labelled images (or of
anything).

    features (n, d), labels (n,)  ->  32 class-weighted subsets of 1500  ->  methods x k in 2, 5, 10
    class weights w (c,):  entropy deficit  1 - H(w)/log c  uniform in a range
    subset: n rows without replacement, classes by w
    record: run, method, k, seven clustering scores, trustworthiness, seconds
    out/records.csv, images.{csv,json,md}, embeddings.png

Every peer runs with its library's defaults; Laplacian Eigenmaps with a nearest-neighbour affinity
of 15 neighbours, as many as UMAP, because scikit-learn's default (n/10) scores lower on every set
we tried, and a second time with the post-processing of ours (diffusion, sphere). Where the leading
columns of an embedding are the smaller ones (all but t-SNE and UMAP) ``max(ks)`` are fitted once.

Rows of 64 columns or more are scaled to length one first, for every method alike: neighbours are
then those of the cosine distance, which [P] and our estimator use.

[P] draws "random class weights with entropy in the range [0.01, 0.1]". An entropy below 0.1 would
put nearly all rows in one class, which its scores exclude, so the range is read as the relative
deficit from the largest entropy.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_matrix
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, Isomap, SpectralEmbedding

from eigenprobe.errors import InputError, extra
from eigenprobe.host.tables import Record, Row
from eigenprobe.io.mesh import Array
from eigenprobe.manifold import OptimalApproximationEigenmaps
from eigenprobe.manifold.coordinates import COSINE_COLUMNS, on_sphere
from eigenprobe_lab.evaluation import reports as tables
from eigenprobe_lab.evaluation.reports import grouped, in_parallel

from ..evaluation.clustering import METRICS, kmeans_scores, trustworthiness

DEFICIT = (0.01, 0.1)
SCORES = (*METRICS, "trustworthiness", "seconds")
Fitted = Mapping[str, Callable[[Array], Array]]  # by method
METHODS = {
    "direct": "Opt. App. Eigenmaps (direct)",
    "network": "Opt. App. Eigenmaps (network)",
    "paper": "Opt. App. Eigenmaps (the paper's way)",
    "untrained": "the paper's network, untrained",
    "probes": "closed form of the paper's probes",
    "laplacian": "Laplacian Eigenmaps",
    "laplacian_sphere": "Laplacian Eigenmaps, our coordinates",
    "pca": "PCA",
    "umap": "UMAP",
    "tsne": "t-SNE",
    "isomap": "Isomap",
}
FITTED = ("paper", "untrained", "probes")  # functions that are given


def embed(
    name: str, features: Array, ks: Sequence[int], seed: int, fitted: Fitted | None = None
) -> tuple[dict[int, Array], dict[int, float]]:
    """Embeddings of each size by one of `METHODS`, and the seconds that each took; `FITTED` are
    given.
    """
    if name in FITTED and (fitted is None or name not in fitted):
        raise InputError(f"{METHODS[name]} has to be given: see --way paper")
    embeddings, seconds, (kind, _, sphere) = {}, {}, name.partition("_")
    with warnings.catch_warnings(
        action="ignore"
    ):  # peers warn about threads and disconnected graphs at every call
        for k in sorted(ks, reverse=True):
            if k == max(ks) or kind in (
                "tsne",
                "umap",
            ):  # of the others the leading columns are the smaller embedding
                start = time.perf_counter()
                if fitted is not None and name in fitted:
                    found = fitted[name](features)
                elif name in ("direct", "network"):
                    options: Any = {"solver": name, "coordinates": "sphere", "random_state": seed}
                    model = OptimalApproximationEigenmaps(k, **options).fit(features)
                else:
                    model = PEERS[kind](k, seed)
                    found = np.asarray(model.fit_transform(features))
                seconds[k] = time.perf_counter() - start
            seconds.setdefault(k, seconds[max(ks)])
            if name in ("direct", "network"):
                factors = 1 - model.eigenvalues_[:k] * model.basis_.info["step_time"]
                embeddings[k] = on_sphere(model.vectors_[:, :k], factors)
            else:
                embeddings[k] = found[:, :k]
            if sphere:
                embeddings[k] = _on_sphere(embeddings[k], model.affinity_matrix_)
    return embeddings, seconds


LAPLACIAN = {"affinity": "nearest_neighbors", "n_neighbors": 15, "n_jobs": 1}
PEERS: dict[str, Callable[[int, int], Any]] = {  # of the number of coordinates and the seed
    "umap": lambda k, seed: extra("umap").UMAP(n_components=k, random_state=seed, n_jobs=1),
    "pca": lambda k, seed: PCA(k, random_state=seed),
    "isomap": lambda k, seed: Isomap(n_components=k),
    "tsne": lambda k, seed: TSNE(
        k, init="pca", random_state=seed, method="barnes_hut" if k < 4 else "exact"
    ),
    "laplacian": lambda k, seed: SpectralEmbedding(k, random_state=seed, **LAPLACIAN),
}


def _on_sphere(vectors: Array, affinity: csr_matrix) -> Array:
    """Eigenvectors ``(n, k)`` of the random walk of an affinity, diffused and projected as ours
    are.
    """
    degree = np.asarray(affinity.sum(1)).ravel()
    mass = degree / degree.sum()
    vectors = vectors / np.sqrt((mass[:, None] * vectors**2).sum(0))
    factors = (vectors * (affinity @ vectors)).sum(0) / (degree[:, None] * vectors**2).sum(0)
    return on_sphere(vectors, factors)


def class_weights(
    count: int, rng: np.random.Generator, deficit: tuple[float, float] = DEFICIT
) -> Array:
    """Weights ``softmax(s g)``, g normal, with ``s`` such that the entropy deficit is a uniform
    draw from the range.
    """
    if count < 2:
        return np.ones(count)
    target, g = rng.uniform(*deficit), rng.standard_normal(count)
    # The deficit grows with the scale from 0 to 1; where two classes nearly tie it takes a large
    # one.
    scale = brentq(
        lambda s: 1 - entropy(softmax(s * g), base=count) - target, 0, 1e9, xtol=1e-12, maxiter=500
    )
    return softmax(scale * g)


def weighted_subset(labels: Array, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``n`` rows without replacement, classes by random weights; a class that runs out leaves its
    share.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    weights, room = class_weights(len(classes), rng), np.bincount(codes)
    if n > len(labels):
        raise InputError(f"a subset of {n} rows needs at least as many, got {len(labels)}")
    counts = np.minimum(rng.multinomial(n, weights), room)
    while counts.sum() < n:
        left = np.maximum(weights, 1e-12) * (room > counts)
        counts = np.minimum(counts + rng.multinomial(n - counts.sum(), left / left.sum()), room)
    rows = [
        rng.choice(np.flatnonzero(codes == c), counts[c], replace=False)
        for c in range(len(classes))
    ]
    return rng.permutation(np.concatenate(rows))


@dataclass(frozen=True)
class Protocol:
    """``runs`` subsets of ``n`` rows, embedded in ``ks`` dimensions by ``methods``; ``unit`` scales
    wide rows.
    """

    runs: int = 32
    n: int = 1500
    ks: Sequence[int] = (2, 5, 10)
    methods: Sequence[str] = tuple(name for name in METHODS if name not in FITTED)
    seed: int = 0
    unit: bool = True

    def __post_init__(self) -> None:
        if unknown := [name for name in self.methods if name not in METHODS]:
            raise InputError(f"unknown method {unknown[0]!r}, known are {', '.join(METHODS)}")
        if self.runs < 1 or not self.ks or min(self.ks) < 1:
            raise InputError(f"runs and ks must be positive, got {self.runs} and {list(self.ks)}")

    def subset(self, labels: Array, run: int) -> NDArray[np.int64]:
        """The rows of one run."""
        return weighted_subset(
            labels, min(self.n, len(labels)), np.random.default_rng([self.seed, run])
        )

    def records(
        self, features: Array, labels: Array, jobs: int = 1, fitted: Fitted | None = None
    ) -> list[Record]:
        """One record for each run, method and k; the same whatever ``jobs``, the number of
        processes.

        ``fitted`` are functions from rows to coordinates by method: those of `FITTED`.
        """
        if len(features) != len(labels):
            raise InputError(
                f"features and labels must be of one length, got {len(features)} and {len(labels)}"
            )
        subsets = [self.subset(labels, run) for run in range(self.runs)]
        tasks = (
            (self.rows(features[rows]), labels[rows], name, run, fitted)
            for run, rows in enumerate(subsets)
            for name in self.methods
        )
        results = in_parallel(self._one, tasks, "runs", self.runs * len(self.methods), jobs)
        return [record for result in results for record in result]

    def rows(self, features: Array) -> Array:
        """Rows in single precision, of length one where asked."""
        x = np.asarray(features, np.float32)
        if not self.unit or x.shape[1] < COSINE_COLUMNS:
            return x
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)

    def _one(
        self, features: Array, labels: Array, name: str, run: int, fitted: Fitted | None
    ) -> list[Record]:
        """One method on one subset. A method that fails loses this run, not the table."""
        base: Record = {"run": run, "method": name}
        try:
            embeddings, seconds = embed(name, features, self.ks, self.seed + run, fitted)
        except (ValueError, RuntimeError, ArithmeticError) as error:
            if isinstance(error, InputError) and "pip install" in str(error):
                raise
            return [{**base, "k": k, "error": str(error).splitlines()[0]} for k in self.ks]
        records: list[Record] = []
        for k in self.ks:
            scores = kmeans_scores(embeddings[k], labels, seed=self.seed)
            scores["trustworthiness"] = trustworthiness(features, embeddings[k])
            records.append({**base, "k": k, **scores, "seconds": seconds[k]})
        return records


def summarise(records: Sequence[Row], metrics: Sequence[str] = SCORES) -> list[Record]:
    """Mean and deviation (``<metric>_std``) over the runs, one row for each k and method, in the
    order they came.
    """
    rows = []
    good = sorted(
        (record for record in records if "error" not in record), key=lambda record: record["k"]
    )
    for (k, method), group in grouped(good, "k", "method").items():
        row: Record = {"method": method, "k": k, "runs": len(group)}
        for metric in metrics:
            values = np.array([record[metric] for record in group], float)
            row |= {metric: float(values.mean()), f"{metric}_std": float(values.std())}
        rows.append(row)
    return rows


class Images(tables.Report):
    """One row for each k and method: means and deviations over the runs."""

    def markdown(self) -> str:
        """Mean and deviation of NMI and ARI, the other scores, trustworthiness and seconds; the
        best in bold.
        """
        others = {
            name: title
            for name, title in METRICS.items()
            if name not in ("nmi", "ari", "v_measure")
        }
        uneven, shown = len({row["runs"] for row in self.rows}) > 1, []  # the V-measure is the NMI
        for row in self.rows:
            cells = {
                "method": METHODS[row["method"]],
                "k": row["k"],
                **({"runs": row["runs"]} if uneven else {}),
            }
            cells |= {METRICS[name]: _score(self.rows, row, name) for name in ("nmi", "ari")}
            cells |= {title: row[name] for name, title in others.items()}
            shown.append({**cells, "trust.": row["trustworthiness"], "seconds": row["seconds"]})
        return tables.markdown(shown)


def run(
    name: str,
    x: Array,
    y: Array,
    protocol: Protocol,
    out: Path,
    jobs: int = 1,
    fitted: Fitted | None = None,
) -> Images:
    """Run the protocol on features ``x (n, d)`` and labels ``y (n,)`` of a table of some name, and
    write its tables and figure into ``out``; rows that something was trained on are not among them.
    """
    records = protocol.records(x, y, jobs, fitted)
    failed = {
        f"{METHODS[r['method']]}, run {r['run']}": r["error"] for r in records if "error" in r
    }
    facts = {"table": name, "rows": len(y), "columns": x.shape[1], "classes": len(np.unique(y))}
    result = Images(summarise(records), failed, facts | asdict(protocol)).write(out, "images")
    tables.write_csv(out / "records.csv", records)
    files = [out / "records.csv"]
    if 2 in protocol.ks:
        from eigenprobe.viz.figures import embeddings

        rows = protocol.subset(y, 0)
        chosen, seed = protocol.rows(x[rows]), protocol.seed
        pictures = {
            METHODS[method]: embed(method, chosen, (2,), seed, fitted)[0][2]
            for method in protocol.methods
        }
        files.append(out / "embeddings.png")
        embeddings(pictures, y[rows], files[-1])
    return replace(result, written=(*result.written, *files))


def _score(rows: Sequence[Row], row: Row, metric: str) -> str:
    """Mean and deviation, in bold where no row with the same k has a larger mean."""
    text = f"{row[metric]:.3f} ± {row[f'{metric}_std']:.3f}"
    best = all(row[metric] >= other[metric] for other in rows if other["k"] == row["k"])
    return f"**{text}**" if best else text
