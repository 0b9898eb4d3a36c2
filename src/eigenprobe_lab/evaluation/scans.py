"""Clouds as scanners measure them: what each method makes of every kind of damage, against the
oracle of the mesh.

    mesh -> Scan of one kind -> plain | ours | robust_laplacian -> vectors v_i at all points,
    eigenvalues lambda_i

With the oracle's vectors u_i and eigenvalues l_i at the true places of the points that are on the
surface, inner products weighted by the area nearest to each, and vectors of length one in them:

    cosine_k      mean over i <= k of |<v_i, u_i>|
    near_k        mean over i <= k of |P_i u_i|^2, P_i the projection onto the span of v_{i-3}, ...,
    v_{i+3} eigenvalues   mean over 2 <= i <= k of |lambda_i - l_i| / l_i
    heat          |h - h'| / |h'| of heat kernel signatures h, mean over 16 times

Plain is `decompose` of all points and all parts, ours its defaults.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from warnings import catch_warnings

import numpy as np

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.evaluation import compare_vectors
from eigenprobe.geometry import point_cloud
from eigenprobe.host.tables import Record
from eigenprobe.io.mesh import Array, as_mesh
from eigenprobe_lab.evaluation.reports import Report, grouped, markdown, mean_row

from . import scanner as s
from .samples import Measured, measure_files
from .scanner import Scan, drawn, even, merged, one_sided

# a vector counts as captured near its index by those up to this many places before and after it
WINDOW = 3
TIMES = 16
DENSER = {
    "noise": 4,
    "misregistered": 4,
}  # kinds whose clouds have so many times the points: fine and merged scans
FAILURES = (InputError, ImportError, RuntimeError, ArithmeticError, ValueError)
KINDS: dict[
    str, tuple[str, Callable[[s.Mesh, int, float, s.Generator], Scan]]
] = {  # mesh, points, amount, generator
    "even": ("even", lambda m, n, _, rng: even(m, n, rng)),
    "random": ("random", lambda m, n, _, rng: drawn(m, n, rng)),
    "rings": ("six spinning scans, rings {}:1", lambda m, n, a, rng: merged(m, n, rng, ratio=a)),
    "side": ("one spinning scan, rings {}:1", lambda m, n, a, rng: one_sided(m, n, rng, ratio=a)),
    "depth": (
        "one depth image, {} of its edges fly",
        lambda m, n, a, rng: one_sided(m, n, rng, flying=a),
    ),
    "noise": ("random, noise of {}", lambda m, n, a, rng: s.noisy(drawn(m, n, rng), a, rng)),
    "misregistered": (
        "six depth images, off by {}",
        lambda m, n, a, rng: s.misregistered(merged(m, n, rng), a, rng),
    ),
    "strays": ("a share of {} strays", lambda m, n, a, rng: s.with_strays(even(m, n, rng), a, rng)),
    "blobs": ("two blobs of 40 points", lambda m, n, _, rng: s.with_blobs(even(m, n, rng), rng)),
    "floor": ("a floor of 2000 points", lambda m, n, _, rng: s.with_floor(even(m, n, rng), rng)),
    "step": ("density {}:1 in a step", lambda m, n, a, rng: s.stepped(m, n, a, rng)),
    "voxels": ("voxel centres, 1/{} of the size", lambda m, _, a, rng: s.voxels(m, int(a), rng)),
}
ROWS = (
    *("even", "random", "rings:2", "rings:4", "rings:8", "side:1", "side:8", "depth:0.5"),
    *(
        "noise:0.005",
        "noise:0.01",
        "noise:0.02",
        "misregistered:0.02",
        "strays:0.025",
        "strays:0.05",
    ),
    *("blobs", "floor", "step:100", "voxels:32", "voxels:128"),
)


# of points (n, 3): the basis of k vectors
METHODS: dict[str, Callable[..., ep.Basis]] = {
    "plain": partial(ep.decompose, resolution="all", parts="all"),
    "ours": ep.decompose,
    "robust_laplacian": point_cloud,
}


@lru_cache(maxsize=1)
def _mesh(path: Path) -> tuple[Array, Array]:
    """A mesh of radius 1 about the origin."""
    vertices, faces = as_mesh(ep.geometry.load(path))
    vertices = vertices - vertices.mean(0)
    return np.ascontiguousarray(vertices / np.linalg.norm(vertices, axis=1).max()), faces


def _parsed(kind: str) -> tuple[str, float]:
    """``rings:8`` is ``("rings", 8.0)``."""
    name, _, amount = kind.partition(":")
    if name in KINDS and re.fullmatch(r"\d*\.?\d+" if "{}" in KINDS[name][0] else "", amount):
        return name, float(amount or 0)
    known = ", ".join(name + ":AMOUNT" * ("{}" in title) for name, (title, _) in KINDS.items())
    raise InputError(f"kinds of damage are {known}, got {kind}")


@dataclass(frozen=True)
class ScanMeasure:
    """What to measure on every file: plain data, so that it can be sent to other processes."""

    kinds: Sequence[str] = ROWS
    k: Sequence[int] = (10, 20)
    points: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        for kind in self.kinds:
            _parsed(kind)
        if min(self.k, default=0) < 2 or self.points <= max(self.k) + WINDOW:
            raise InputError(
                "expected k >= 2 and more points than that, "
                f"got k={list(self.k)}, points={self.points}"
            )

    def __call__(self, path: Path, kind: str) -> Measured:
        scan, k = self.scan(_mesh(path), kind), max(self.k) + WINDOW
        exact = ep.geometry.oracle(*scan.mesh, k)
        truth = Truth(
            scan, scan.interpolate(exact.vectors), np.asarray(exact.eigenvalues), scan.areas()
        )
        rows, failed = [], {}
        for method, decomposed in METHODS.items():
            row: Record = {
                "shape": path.stem,
                "cloud": kind,
                "method": method,
                "n": len(scan.points),
            }
            try:
                with catch_warnings(
                    action="ignore"
                ):  # that points are left out or averaged is what is measured
                    row |= truth.compare(decomposed(scan.points, k), self.k)
            except FAILURES as error:  # nothing is captured: it counts in the means
                row |= {f"{what}_{level}": 0.0 for what in ("cosine", "near") for level in self.k}
                row["eigenvalues"] = 1.0
                failed[f"{kind}, {method}"] = str(error)
            rows.append(row)
        return rows, failed

    def scan(self, mesh: tuple[Array, Array], kind: str) -> Scan:
        """The cloud of one kind, its rows in random order."""
        name, amount = _parsed(kind)
        rng = np.random.default_rng(self.seed)
        scan = KINDS[name][1](mesh, self.points * DENSER.get(name, 1), amount, rng)
        return scan.take(rng.permutation(len(scan.points)))


@dataclass(frozen=True)
class Truth:
    """The oracle at the true places of the rows of a scan that are on the surface."""

    scan: Scan
    vectors: Array  # (m, K)
    eigenvalues: Array  # (K,)
    areas: Array  # (m,)

    def compare(self, basis: ep.Basis, levels: Sequence[int]) -> dict[str, float]:
        """A basis at all points of the scan by the measures of the module."""
        found = np.nan_to_num(np.asarray(basis.vectors, float)[self.scan.surface])
        values, exact, root = (
            np.asarray(basis.eigenvalues, float),
            self.eigenvalues,
            np.sqrt(self.areas)[:, None],
        )
        weighted = compare_vectors(root * found, root * self.vectors, values, exact)
        near = []
        for i in range(max(levels)):
            window = slice(max(0, i - WINDOW), i + WINDOW + 1)
            own = weighted.cross[window, i]
            near.append(own @ np.linalg.lstsq(weighted.basis_gram[window, window], own)[0])
        row = {f"cosine_{k}": weighted.cosine(k) for k in levels}
        row |= {f"near_{k}": float(np.mean(near[:k])) for k in levels}
        row["eigenvalues"] = weighted.eigenvalue_discrepancy(max(levels))
        times = np.geomspace(4 * np.log(10) / exact[-1], 4 * np.log(10) / exact[1], TIMES)
        heat, true = (
            v**2 @ np.exp(-np.outer(lam, times))
            for v, lam in ((found, values), (self.vectors, exact))
        )
        errors = self.areas @ (heat - true) ** 2 / (self.areas @ true**2)
        return row | {"heat": float(np.sqrt(errors).mean())}


@dataclass(frozen=True)
class ScanReport(Report):
    """Means over the shapes, one line per kind of damage and method."""

    def markdown(self) -> str:
        lines, names = (
            [],
            [
                "n",
                *(name for name in self.rows[0] if name not in ("shape", "cloud", "method", "n")),
            ],
        )
        for (kind, method), own in grouped(self.rows, "cloud", "method").items():
            title = KINDS[_parsed(kind)[0]][0].format(kind.partition(":")[2])
            lines.append(mean_row(own, names, cloud=title, method=method))
        shapes = len(grouped(self.rows, "shape"))
        return f"Means over {shapes} shapes\n\n{markdown(lines, formats={'n': '.0f'})}"


def compare_scans(paths: Sequence[str | Path], measure: ScanMeasure, jobs: int = 1) -> ScanReport:
    """Measure files and folders of meshes, cloud by cloud."""
    return ScanReport(
        *measure_files(measure, paths, jobs, [(kind,) for kind in measure.kinds]), asdict(measure)
    )
