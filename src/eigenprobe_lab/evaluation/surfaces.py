"""The single-shape table: every method on every shape, against the oracle.

    mesh -> n farthest points of its vertices -> method -> Basis -> compare with the oracle at those points -> one row

A row holds the cosines (by index, matched, as subspaces) at each level ``k``, the eigenvalue discrepancy, the ``xyz``
reconstruction error over the oracle's, the correlation of the mass with true area, and the seconds it took. With
``volume`` the points are drawn inside closed meshes and the oracle is the Laplacian of a grid that fills them.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.evaluation import mass_correlation, rebuild, rebuild_weighted, weighted_error
from eigenprobe.geometry import Shape, load, point_cloud
from eigenprobe.host.tables import Record

from .samples import Measured, Sample, agreement, measure_files
from .surface_report import Evaluation, Published, draw_shape, levels

METHODS = ("direct", "network", "pretrained", "robust", "oracle")


@dataclass(frozen=True)
class Measure:
    """What to measure: one file in, its rows out. Plain data, so that it can be sent to other processes.

    ``figures`` is the folder to draw in, if any; ``options`` go to `eigenprobe.decompose`.
    """

    methods: Sequence[str] = ("direct", "robust")
    n: int = 4000
    k: int = 50
    seed: int = 0
    volume: bool = False
    figures: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.methods) - set(METHODS))
        if unknown or not self.methods:
            raise InputError(f"methods must be among {', '.join(METHODS)}, got {', '.join(unknown) or 'none'}")
        if self.n < 3 or self.k < 2:
            raise InputError(f"expected n >= 3 points and k >= 2 vectors, got n={self.n} and k={self.k}")

    def __call__(self, path: Path) -> Measured:
        sample = self.sample(load(path))
        rows, failed = [], {}
        bases: dict[str, Basis] = {}
        for method in self.methods:
            started = time.perf_counter()
            try:
                basis = self.basis(method, sample)
            except (InputError, ImportError, RuntimeError, ArithmeticError) as error:
                failed[method] = str(error)
                continue
            seconds = time.perf_counter() - started
            rows.append(self.row(method, sample, basis) | {"seconds": seconds})
            bases[method] = basis
        if self.figures is not None and bases:
            draw_shape(self.figures, sample, bases, levels(self.k))
        return rows, failed

    def sample(self, shape: Shape) -> Sample:
        """Points of the shape and the oracle there."""
        if self.volume:
            return Sample.inside(shape, self.n, self.k, self.seed)
        return Sample.on_surface(shape, min(self.n, shape.n), self.k, self.seed)

    def basis(self, method: str, sample: Sample) -> Basis:
        """The method's answer from the points alone (the oracle's, for itself)."""
        if method == "robust":
            return point_cloud(sample.points, self.k)
        if method == "oracle":
            weights = sample.areas / sample.areas.sum()
            normalized = sample.vectors * np.sqrt(weights)[:, None]
            return Basis(normalized, weights, sample.eigenvalues, sample.points, {"method": "oracle"})
        from eigenprobe.decomposition import Method, decompose

        options = self.options if method == "pretrained" else {"seed": self.seed, **self.options}
        return decompose(sample.points, k=self.k, method=cast(Method, method), **options).numpy()

    def row(self, method: str, sample: Sample, basis: Basis) -> Record:
        """All measures of one method on one shape but its time."""
        ks, shape = levels(self.k), sample.shape
        row: Record = {"shape": shape.name, "method": method, "vertices": shape.n, "n": len(sample.points)}
        row |= agreement(sample.compare(basis.vectors, basis.eigenvalues), ks)
        x, areas = sample.points, sample.areas
        exact = {k: weighted_error(x, rebuild_weighted(sample.vectors, x, k, areas), areas) for k in ks}
        ours = exact if method == "oracle" else {k: weighted_error(x, rebuild(basis, x, k), areas) for k in ks}
        row |= {f"rebuild_{k}": ours[k] for k in ks}
        if method != "oracle":
            row |= {f"rebuild_ratio_{k}": ours[k] / exact[k] for k in ks}
            if not self.volume:
                row["mass_correlation"] = mass_correlation(basis.mass, areas)
        if (dimension := basis.info.get("dimension")) is not None:
            row["dimension"] = float(dimension)
        return row


def run(
    paths: Sequence[str | Path], measure: Measure | None = None, jobs: int = 1, published: Published | None = None
) -> Evaluation:
    """Measure files and folders of meshes, ``jobs`` shapes at a time.

    A file that cannot be used is named in ``Evaluation.failed`` and skipped; only when none can is it an error.
    """
    measure = measure or Measure()
    facts = {name: value for name, value in asdict(measure).items() if name != "figures"}
    return Evaluation(*measure_files(measure, paths, jobs), facts, published=published).beside_published()
