"""Tables of every kind and size through the estimator: which solver answers, how long it takes, how
well.

    python -m benchmarks.sweep [KIND ...] [--rows 10000 30000] [--large 300000] [--device cpu]
                               [--minutes 4]

A kind is a table (n, d) with labels, one label where it has no groups. Of every kind and size:
seconds of a fit, memory above what the process held, the adjusted Rand index of k-means in the
embedding and of the nearest mean of a group (where there are groups), the largest residual and the
solver. Sizes of ``--large`` are those of `LARGE` only. Groups are
k-means clusters of at most 20,000 rows. A failure is a row with its message. After ``--minutes`` no
further kind is begun; the file is whole after every row.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from benchmarks.record import best_device, clock, facts, peak, write
from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.host.files import plain
from eigenprobe_lab.evaluation import reports as tables

Table = tuple[Any, np.ndarray]
SCORED = 20_000  # rows whose clusters are compared with their groups
MOST = 50  # coordinates, however many groups
# of any size: graphs without a small dimension first, then the others in which solvers or memory
# may fail
LARGE = (
    *(
        f"mixture of dimension {inner}, {name}"
        for inner in (128, 32, 8, 2)
        for name in ("near", "far")
    ),
    "one Gaussian",
    "cube",
    "heavy tails",
    "unit rows",
    "hubs",
)


def mixture(
    rng: np.random.Generator,
    n: int,
    inner: int = 128,
    spread: float = 1.0,
    groups: int = 20,
    uneven: bool = False,
) -> Table:
    """Gaussian groups of ``inner`` dimensions in 128 columns, their centres ``spread`` times a
    Gaussian apart.
    """
    share = np.linspace(1, 100, groups) if uneven else np.ones(groups)
    labels = rng.choice(groups, n, p=share / share.sum())
    x = rng.standard_normal((n, inner), np.float32)
    x += spread * rng.standard_normal((groups, inner), np.float32)[labels]
    if inner < 128:
        x = x @ np.linalg.qr(rng.standard_normal((128, inner)))[0].T.astype(np.float32)
    return x, labels


def cube(rng: np.random.Generator, n: int) -> Table:
    return rng.random((n, 16), np.float32), np.zeros(n, int)


def heavy_tails(rng: np.random.Generator, n: int) -> Table:
    x, labels = mixture(rng, n, 32, 2.0)
    return x * (rng.standard_t(2, (n, 1)) ** 2 + 0.5).astype(np.float32), labels


def hubs(rng: np.random.Generator, n: int) -> Table:
    """One row in a thousand lies in the middle of everything."""
    x, labels = mixture(rng, n, 128, 1.0)
    x[::1000] *= 0.2
    return x, labels


def near_duplicates(rng: np.random.Generator, n: int) -> Table:
    x, labels = mixture(rng, max(2, n // 10), 16, 3.0)
    copies = rng.integers(len(x), size=n)
    return x[copies] + 1e-4 * rng.standard_normal((n, x.shape[1]), np.float32), labels[copies]


def words(rng: np.random.Generator, n: int) -> Table:
    """Counts of words weighted by their rarity: ten topics over 3000 words, about fifty in a
    document.
    """
    labels, columns = rng.integers(10, size=n), 3000
    topics = rng.dirichlet(np.full(columns, 0.05), 10).cumsum(1)
    drawn = rng.random((n, 50))
    chosen = np.concatenate(
        [np.searchsorted(topics[t], row) for t, row in zip(labels, drawn, strict=True)]
    )
    counts = csr_matrix(
        (
            np.ones(n * 50, np.float32),
            (np.repeat(np.arange(n), 50), np.minimum(chosen, columns - 1)),
        ),
        (n, columns),
    )
    rarity = np.log(n / np.maximum(counts.getnnz(0), 1)).astype(np.float32)
    return csr_matrix(counts.multiply(rarity)), labels


def unit_rows(rng: np.random.Generator, n: int) -> Table:
    x, labels = mixture(rng, n, 64, 1.5)
    return x / np.linalg.norm(x, axis=1, keepdims=True), labels


KINDS: dict[str, Callable[[np.random.Generator, int], Table]] = {
    **{
        f"mixture of dimension {inner}, {name}": lambda rng, n, i=inner, s=spread: mixture(
            rng, n, i, s
        )
        for inner in (2, 8, 32, 128)
        for name, spread in (("none", 0.0), ("near", 1.0), ("far", 8.0))
    },
    "one Gaussian": lambda rng, n: (rng.standard_normal((n, 64), np.float32), np.zeros(n, int)),
    "cube": cube,
    "heavy tails": heavy_tails,
    "hubs": hubs,
    "near-duplicates": near_duplicates,
    "words": words,
    "unit rows": unit_rows,
    **{
        f"{groups} groups": lambda rng, n, g=groups: mixture(rng, n, 64, 2.0, g)
        for groups in (2, 100, 1000)
    },
    "unequal groups": lambda rng, n: mixture(rng, n, 64, 2.0, 20, True),
}


def measure(kind: str, n: int, device: str, seed: int = 0) -> dict[str, Any]:
    """One row: a kind at a size."""
    x, labels = KINDS[kind](np.random.default_rng([seed, n]), n)
    groups = len(np.unique(labels))
    k = min(max(groups, 3), MOST, n // 4)
    vectors: Any = "auto" if k > 3 else "sphere"  # no map, whatever the number
    model = OptimalApproximationEigenmaps(k, coordinates=vectors, random_state=seed, device=device)
    row: dict[str, Any] = {"kind": kind, "rows": n, "groups": groups}
    start, busy = clock(device), time.process_time()
    try:
        row["MiB"] = peak(lambda: model.fit(x), device)
    except Exception as error:  # whatever it is, the other kinds go on
        return row | {"failed": f"{type(error).__name__}: {error}"[:300]}
    row |= {"seconds": clock(device) - start, "CPU seconds": time.process_time() - busy}
    row |= {"metric": model.metric_, "solver": model.basis_.info["solver"]}
    row |= {
        "residual": model.basis_.info["residual"],
        "finite": bool(np.isfinite(model.embedding_).all()),
    }
    if groups > 1:
        row["ARI"] = rand_index(model.embedding_, labels, seed)
        if not issparse(x):
            row["ARI of nearest centres"] = nearest_centres(x, labels, seed)
    return row


def rand_index(embedding: np.ndarray, labels: np.ndarray, seed: int) -> float:
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    chosen = np.random.default_rng(seed).permutation(len(labels))[:SCORED]
    found = KMeans(len(np.unique(labels)), n_init=4, random_state=seed).fit_predict(
        embedding[chosen]
    )
    return float(adjusted_rand_score(labels[chosen], found))


def nearest_centres(x: np.ndarray, labels: np.ndarray, seed: int) -> float:
    """That of rows given to the group whose mean is nearest: of overlapping Gaussian groups about
    the best possible.
    """
    from sklearn.metrics import adjusted_rand_score
    from sklearn.neighbors import NearestCentroid

    chosen = np.random.default_rng(seed).permutation(len(labels))[:SCORED]
    found = NearestCentroid().fit(x[chosen], labels[chosen]).predict(x[chosen])
    return float(adjusted_rand_score(labels[chosen], found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 30_000])
    parser.add_argument(
        "--large", type=int, nargs="*", default=[], help=f"rows of {', '.join(LARGE)} alone"
    )
    parser.add_argument("--minutes", type=float, help="after which no further kind is begun")
    parser.add_argument("--device", default=best_device())
    o = parser.parse_args()
    if unknown := set(o.kinds) - set(KINDS):
        parser.error(f"expected kinds among {', '.join(KINDS)}, got {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    began, about = time.perf_counter(), facts("sweep", o.device, o)
    large = [kind for kind in LARGE if not o.kinds or kind in o.kinds]
    sizes = [(n, kind) for n in o.large for kind in large] + [
        (n, kind) for n in o.rows for kind in o.kinds or KINDS
    ]
    for n, kind in sizes:
        if o.minutes is not None and time.perf_counter() - began > 60 * o.minutes:
            break
        rows.append(measure(kind, n, o.device))
        print(rows[-1], flush=True)
        every = sorted(plain(rows), key=lambda row: (row["rows"], list(KINDS).index(row["kind"])))
        write(f"sweep_{o.device}.json", about | {"left": len(sizes) - len(rows), "rows": every})
    print(tables.markdown(rows))


if __name__ == "__main__":
    main()
