"""The single-shape table: every method on every shape, against the oracle, with the paper's numbers beside.

    mesh -> n farthest points of its vertices -> method -> Basis -> compare with the oracle at those points -> one row

A row holds the cosines (by index, matched, as subspaces) at each level ``k``, the eigenvalue discrepancy, the ``xyz``
reconstruction error over the oracle's, the correlation of the mass with true area, and the seconds it took. With
``volume`` the points are drawn inside closed meshes and the oracle is the Laplacian of a grid that fills them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..basis import Basis
from ..errors import InputError
from ..geometry import farthest_points, find_shapes, load, oracle, sample_volume
from ..geometry.io import Shape
from ..geometry.oracle import point_cloud
from ..paper.published import DIFFERENT, published
from ..progress import track
from .alignment import Alignment, compare_vectors
from .mass import mass_correlation, nearest_sample_areas
from .reconstruction import oracle_errors, reconstruction_errors
from .surface_report import Evaluation

Array = NDArray[Any]
METHODS = ("direct", "network", "pretrained", "robust", "oracle")
LEVELS = (10, 20, 50)


@dataclass(frozen=True)
class Sample:
    """A shape reduced to points, with everything known about it there."""

    shape: Shape
    points: Array  # (n, 3)
    reference: Array  # (n, K) oracle vectors at the points
    eigenvalues: Array  # (K,)
    areas: Array  # (n,) true area (volume: equal shares) of every point
    indices: Array | None  # rows of the mesh's vertices, None for interior points


def run(
    paths: Sequence[str | Path],
    *,
    methods: Sequence[str] = ("direct", "robust"),
    n: int = 4000,
    k: int = 50,
    seed: int = 0,
    out: Path | None = None,
    figures: bool = True,
    volume: bool = False,
    jobs: int = 1,
    progress: Callable[..., Iterable[Any]] = track,
    options: dict[str, Any] | None = None,
) -> Evaluation:
    """Measure ``methods`` on files and folders of meshes; write tables and figures under ``out`` where given.

    A file that cannot be used is reported in ``Evaluation.failed`` and skipped; only when none can is it an error.
    ``options`` go to `eigenprobe.decompose`; ``progress(iterable, description, total)`` defaults to the usual bar.
    """
    unknown = sorted(set(methods) - set(METHODS))
    if unknown or not methods:
        raise InputError(f"methods must be among {', '.join(METHODS)}, got {', '.join(unknown) or 'none'}")
    if n < 3 or k < 2:
        raise InputError(f"expected n >= 3 points and k >= 2 vectors, got n={n} and k={k}")
    files = find_shapes([Path(p) for p in paths])
    folder = None if out is None or not figures else Path(out) / "figures"
    measure = Measure(tuple(methods), n, k, seed, volume, folder, dict(options or {}))
    rows: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for path, found, reasons in _each(measure, files, jobs, progress):
        rows += found
        failed |= {f"{path.name} ({what})" if what else path.name: why for what, why in reasons.items()}
    if not rows:
        raise InputError("none of the shapes could be measured: " + "; ".join(f"{a}: {b}" for a, b in failed.items()))
    facts = {"methods": list(methods), "n": n, "k": k, "seed": seed, "volume": volume, "options": options or {}}
    result = Evaluation(rows, failed, facts, levels(k))
    return result if out is None else result.write(Path(out), folder)


def _each(
    measure: Measure, files: list[Path], jobs: int, progress: Callable[..., Iterable[Any]]
) -> Iterable[tuple[Path, list[dict[str, Any]], dict[str, str]]]:
    if jobs == 1:
        yield from progress(map(measure, files), "evaluating", len(files))
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=jobs, return_as="generator")
    yield from progress(parallel(delayed(measure)(path) for path in files), "evaluating", len(files))


def levels(k: int) -> tuple[int, ...]:
    """The levels at which a basis of ``k`` vectors is reported: the paper's, and its own size."""
    return tuple(sorted({level for level in LEVELS if level <= k} | {k}))


@dataclass(frozen=True)
class Measure:
    """One file in, its rows out: plain data, so that it can be sent to other processes."""

    methods: tuple[str, ...]
    n: int
    k: int
    seed: int
    volume: bool
    figures: Path | None
    options: dict[str, Any]

    def __call__(self, path: Path) -> tuple[Path, list[dict[str, Any]], dict[str, str]]:
        rows, failed = [], {}
        try:
            sample = self.sample(load(path))
        except InputError as error:
            return path, [], {"": str(error)}
        bases: dict[str, Basis] = {}
        for method in self.methods:
            started = time.perf_counter()
            try:
                basis = self.basis(method, sample)
            except (InputError, ImportError, RuntimeError, ArithmeticError) as error:
                failed[method] = str(error)
                continue
            seconds = time.perf_counter() - started
            rows.append(self.row(method, sample, basis, seconds))
            bases[method] = basis
        if self.figures is not None and bases:
            from .surface_figures import draw

            draw(self.figures, sample, bases, levels(self.k))
        return path, rows, failed

    def sample(self, shape: Shape) -> Sample:
        """Points of the shape and the oracle there."""
        if shape.faces is None:
            raise InputError(f"{shape.name} is a point cloud: an oracle needs a mesh")
        if self.volume:
            from ..geometry.grid import grid_oracle

            points = sample_volume(shape, self.n, self.seed, spread=True)
            vectors, eigenvalues = grid_oracle(shape, points, self.k)
            return Sample(shape, points, vectors, eigenvalues, np.full(self.n, 1 / self.n), None)
        count = min(self.n, shape.n)
        if self.k >= count:
            raise InputError(f"{shape.name} has {count} points, too few for k={self.k} vectors")
        indices = farthest_points(shape.vertices, count, self.seed)
        exact = oracle(shape.vertices, shape.faces, self.k)
        points = shape.vertices[indices]
        areas = nearest_sample_areas(shape, points)
        return Sample(shape, points, exact.vectors[indices], exact.eigenvalues, areas, indices)

    def basis(self, method: str, sample: Sample) -> Basis:
        """The method's answer from the points alone (the oracle's, for itself)."""
        if method == "robust":
            return point_cloud(sample.points, self.k)
        if method == "oracle":
            weights = sample.areas / sample.areas.sum()
            normalized = sample.reference * np.sqrt(weights)[:, None]
            return Basis(normalized, weights, sample.eigenvalues, sample.points, {"method": "oracle"})
        from ..decomposition import Method, decompose

        return decompose(sample.points, k=self.k, method=cast(Method, method), seed=self.seed, **self.options).numpy()

    def row(self, method: str, sample: Sample, basis: Basis, seconds: float) -> dict[str, Any]:
        """All measures of one method on one shape."""
        name = sample.shape.name
        row: dict[str, Any] = {"shape": name, "method": method, "vertices": sample.shape.n, "n": len(sample.points)}
        alignment = compare_vectors(basis.vectors, sample.reference, basis.eigenvalues, sample.eigenvalues)
        row |= _agreement(alignment, levels(self.k))
        exact = oracle_errors(sample.reference, sample.points, sample.areas, levels(self.k))
        if method == "oracle":
            row |= {f"rebuild_{k}": error for k, error in exact.items()}
        else:
            ours = reconstruction_errors(basis, sample.points, sample.areas, levels(self.k))
            row |= {f"rebuild_{k}": error for k, error in ours.items()}
            row |= {f"rebuild_ratio_{k}": error / exact[k] for k, error in ours.items()}
            if not self.volume:
                row["mass_correlation"] = mass_correlation(basis.mass, sample.areas)
        if (dimension := basis.info.get("dimension")) is not None:
            row["dimension"] = float(dimension)
        row["seconds"] = seconds
        paper = None if self.volume else published(name)
        if paper is not None:
            row |= {f"paper_{key}": value for key, value in paper._asdict().items()}
        row["note"] = DIFFERENT.get(name, "")
        return row


def _agreement(alignment: Alignment, ks: tuple[int, ...]) -> dict[str, float]:
    measures: dict[str, float] = {}
    for name, measure in (
        ("cosine", alignment.cosine),
        ("matched", alignment.matched),
        ("subspace", alignment.subspace),
    ):
        measures |= {f"{name}_{k}": measure(k) for k in ks}
    measures["discrepancy"] = alignment.eigenvalue_discrepancy(ks[-1])
    measures["deviation"] = alignment.eigenvalue_deviation(ks[-1])
    return measures
