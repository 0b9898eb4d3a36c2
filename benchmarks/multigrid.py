"""The solver of `decompose` beside pyamg and LOBPCG, on one matrix, to one residual.

    python -m benchmarks.multigrid              random tori of 20 000 and 50 000 points, 50 vectors
    python -m benchmarks.multigrid --sizes 5000 -k 20

H = I - A of the adaptive smoother, the constant known.  ours: the solver that `decompose` takes
(on the host a sparse factor).  The others: `pyamg.smoothed_aggregation_solver`, given
the same null vector, as preconditioner of `scipy.sparse.linalg.lobpcg`, started from random vectors
or from the prolonged eigenvectors of pyamg's coarsest level that has enough points.  Their settings
are the two fastest of 36 that were tried (strength, smoother, shift, guard vectors); a coarse level
of hundreds of points is needed, because on a level of one point the null vector is inverted. One
thread, the hierarchy included; the ways take turns. Ratios are those of processor time, turn by
turn.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.sparse import csr_matrix, eye_array
from scipy.sparse.linalg import lobpcg
from threadpoolctl import threadpool_limits

from benchmarks.record import facts, ratios, spread, turns, write
from eigenprobe.cloud.cloud import arrange
from eigenprobe.eigen import solve
from eigenprobe.eigen.problem import SparseOperator
from eigenprobe.neighbors.layout import as_scipy
from eigenprobe.smoothers import NEIGHBOURS, Smoother, build_smoother

CHEBYSHEV = ("chebyshev", {"degree": 2})
PEERS: dict[str, dict[str, Any]] = {
    "pyamg + lobpcg, random start": {"strength": ("symmetric", {"theta": 0.05}), "nested": False},
    "pyamg + lobpcg, nested": {"strength": ("symmetric", {"theta": 0.05})},
    "pyamg (evolution) + lobpcg, nested": {
        "strength": ("evolution", {"k": 2, "epsilon": 4.0}),
        "presmoother": CHEBYSHEV,
        "postsmoother": CHEBYSHEV,
        "shift": 1e-5,
    },
}


def torus(n: int, seed: int) -> torch.Tensor:
    """Independent random points, uniform by area, on a torus of radii 1 and 0.4."""
    rng = np.random.default_rng(seed)
    angle, height = rng.uniform(0, 2 * np.pi, 2 * n), rng.uniform(0, 1.4, 2 * n)
    angle = angle[height < 1 + 0.4 * np.cos(angle)][:n]
    turn = rng.uniform(0, 2 * np.pi, len(angle))
    ring = 1 + 0.4 * np.cos(angle)
    return torch.from_numpy(
        np.stack([ring * np.cos(turn), ring * np.sin(turn), 0.4 * np.sin(angle)], 1)
    )


def smoother_of(n: int, k: int, seed: int) -> Smoother:
    graph = arrange(torus(n, seed), NEIGHBOURS["adaptive"], k).graph
    assert graph is not None
    return build_smoother(graph, "adaptive")


def ours(smoother: Smoother, k: int, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Gaps and vectors beyond the constant one."""
    pairs = solve(smoother, k, tol=tol)
    return pairs.gaps[1:].numpy(), pairs.vectors[:, 1:].numpy()


def peer(
    smoother: Smoother,
    k: int,
    tol: float,
    *,
    nested: bool = True,
    shift: float = 0.0,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """The same by pyamg and LOBPCG."""
    import pyamg

    laplacian, known = _laplacian(smoother)
    shifted = csr_matrix(laplacian + shift * eye_array(smoother.n))
    levels = pyamg.smoothed_aggregation_solver(
        shifted, B=known, symmetry="symmetric", max_coarse=400, coarse_solver="pinv", **options
    )
    start = (
        _prolonged(levels, k)
        if nested
        else np.random.default_rng(0).standard_normal((smoother.n, k - 1))
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # LOBPCG says where it stopped; the residuals are measured here
        gaps, vectors = lobpcg(
            laplacian,
            start,
            M=levels.aspreconditioner(),
            Y=known,
            tol=tol,
            maxiter=200,
            largest=False,
        )
    order = np.argsort(gaps)
    return gaps[order], vectors[:, order]


def _laplacian(smoother: Smoother) -> tuple[Any, np.ndarray]:
    assert smoother.mass is not None
    laplacian = SparseOperator(smoother.matrix, None, smoother.degree).laplacian()
    return as_scipy(laplacian), smoother.mass.sqrt().numpy()[:, None]


def _prolonged(levels: Any, k: int) -> np.ndarray:
    """Eigenvectors of the coarsest level with at least 3 k points, on the finest one."""
    sizes = [level.A.shape[0] for level in levels.levels]
    at = max(i for i, size in enumerate(sizes) if size >= 3 * k)
    gram = None
    for level in levels.levels[:at]:
        gram = level.P.T @ level.P if gram is None else level.P.T @ (gram @ level.P)
    coarse = levels.levels[at].A.toarray()
    vectors = eigh(coarse, None if gram is None else gram.toarray(), subset_by_index=[0, k - 1])[1][
        :, 1:
    ]
    for level in reversed(levels.levels[:at]):
        vectors = level.P @ vectors
    return np.asarray(vectors)


def residual(smoother: Smoother, gaps: np.ndarray, vectors: np.ndarray) -> float:
    laplacian, _ = _laplacian(smoother)
    vectors = vectors / np.linalg.norm(vectors, axis=0)
    return float(np.linalg.norm(laplacian @ vectors - vectors * gaps, axis=0).max())


def compare(n: int, k: int, tol: float, repeats: int, seed: int) -> dict[str, Any]:
    """Seconds, residuals and eigenvalues of each way on one matrix."""
    smoother = smoother_of(n, k, seed)
    ways: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
        "ours": lambda: ours(smoother, k, tol)
    }
    for name, options in PEERS.items():
        ways[name] = partial(peer, smoother, k, tol, **options)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def solved(name: str) -> None:
        found[name] = ways[name]()

    rows = turns({name: partial(solved, name) for name in ways}, repeats)
    for name, (gaps, vectors) in found.items():
        rows[name] |= {"residual": residual(smoother, gaps, vectors), "last gap": float(gaps[-1])}
    best = min((name for name in rows if name != "ours"), key=lambda name: rows[name]["cpu"])
    return {"n": n, "k": k, "tol": tol, "rows": rows, "ratio": ratios(rows, "ours", best, "busy")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[20_000, 50_000])
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-6, help="largest residual |H q - g q|")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tables = []
    with threadpool_limits(1):
        torch.set_num_threads(1)
        for n in options.sizes:
            table = compare(n, options.k, options.tol, options.repeats, options.seed)
            tables.append(table)
            print(f"\nn = {n}, k = {options.k}, residual {options.tol:g}")
            for name, row in table["rows"].items():
                reached = f"residual {row['residual']:.1e}   {row['last gap']:.6e}"
                print(f"  {name:34} {spread(row)} s   {reached}")
            print(f"  {table['ratio']['of']}: {spread(table['ratio'], 3, 'median')}", flush=True)
        about = facts("multigrid", "cpu", options, seed=options.seed, peers=("pyamg",))
        write("multigrid.json", about | {"tables": tables})


if __name__ == "__main__":
    main()
