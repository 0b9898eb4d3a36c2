"""The single-shape table: every method on every shape against the oracle, its report, and the
paper's figures.

    mesh -> n farthest points of its vertices -> method -> Basis -> compare with the oracle at those
    points -> one row

A row holds the cosines (by index, matched, as subspaces) at each level ``k``, the eigenvalue
discrepancy, the ``xyz`` reconstruction error over the oracle's, the correlation of the mass with
true area, and the seconds it took. With ``volume`` the points are drawn inside closed meshes and
the oracle is the Laplacian of a grid that fills them.

    headline   shape x (published, methods...) x (k <= 10, 20, 50, eigenvalue discrepancy)
    summary    means of every method: the same, reconstruction over the oracle's, mass, seconds
    NAME-METHOD-vectors.png    eigenfunctions of method and oracle with their cosines
    NAME-eigenvalues.png       eigenvalue curves of all methods and the oracle
    NAME-METHOD-mass.png       the mass on the shape, beside true area
    NAME-METHOD-rebuilt.png    coordinates from the first k vectors, method above oracle

Figures are drawn on the mesh. Values known at the samples are carried to its vertices as those of a
basis are to new points (`KernelExtension`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.extensions import KernelExtension
from eigenprobe.geometry import load, point_cloud
from eigenprobe.host.tables import Record
from eigenprobe.io.mesh import Array

from . import reports as tables
from .areas import mass_correlation, rebuild, rebuild_weighted, weighted_error
from .samples import Measured, Sample, agreement, measure_files

METHODS = ("direct", "network", "pretrained", "robust", "oracle")
PIXELS = 300
SHOWN = (1, 2, 4, 9, 14, 19, 29, 49)  # indices of the vectors in the figures
LEVELS = (10, 20, 50)  # the paper's
PEERS = ("oracle", "robust")  # methods that are measured beside ours


def levels(k: int) -> tuple[int, ...]:
    """The levels at which a basis of ``k`` vectors is reported: the paper's, and its own size."""
    return tuple(sorted({level for level in LEVELS if level <= k} | {k}))


@dataclass(frozen=True)
class Published:
    """Printed numbers of another work to stand beside ours, remarks on its shapes, and a group of
    them.
    """

    numbers: Callable[
        [str], Mapping[str, float]
    ]  # shape -> column -> number, empty where there is none
    notes: Mapping[str, str]
    group: str
    members: Sequence[str]


@dataclass(frozen=True)
class Evaluation(tables.Report):
    """What `run` found, one row per shape and method; ``facts["k"]`` is the size of the bases."""

    published: Published | None = None

    @property
    def levels(self) -> tuple[int, ...]:
        return levels(self.facts["k"])

    @property
    def methods(self) -> list[str]:
        return [method for (method,) in tables.grouped(self.rows, "method")]

    @property
    def shapes(self) -> list[str]:
        return [shape for (shape,) in tables.grouped(self.rows, "shape")]

    def of(self, method: str, shapes: Sequence[str] | None = None) -> list[Record]:
        """The rows of one method, of all shapes or of some."""
        return [
            row
            for row in self.rows
            if row["method"] == method and (shapes is None or row["shape"] in shapes)
        ]

    def mean(self, method: str, shapes: Sequence[str] | None = None) -> Record:
        """Column means of one method over all shapes or over some."""
        rows = self.of(method, shapes)
        return tables.mean_row(rows, method=method, shapes=len(rows))

    def means(self) -> list[Record]:
        """Means of every method over the published group (where measured) and over all shapes."""
        groups: dict[str, list[str] | None] = {"all": None}
        if self.published is not None and not self.facts.get("volume"):
            name, members = self.published.group, self.published.members
            found = [shape for shape in members if shape in self.shapes]
            if 0 < len(found) < len(self.shapes):
                groups = {
                    name if len(found) == len(members) else f"{name} ({len(found)})": found,
                    **groups,
                }
        return [
            {"over": name, **self.mean(method, group)}
            for name, group in groups.items()
            for method in self.methods
        ]

    def beside_published(self) -> Self:
        """The same with the published numbers of every shape in columns ``paper_*``, and the
        remarks on it.
        """
        if self.published is None or self.facts.get("volume"):
            return self
        rows, of = [], self.published
        for row in self.rows:
            beside = {f"paper_{key}": value for key, value in of.numbers(row["shape"]).items()}
            rows.append(row | beside | {"note": of.notes.get(row["shape"], "")})
        return replace(self, rows=rows)

    def markdown(self) -> str:
        """The whole report."""
        parts = [self.headline(), self.summary(), *self.remarks()]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, folder: Path, name: str) -> Self:
        """Also the means, and the figures drawn in ``folder/figures``."""
        drawn = sorted((folder / "figures").glob("*.png"))
        found = tables.Report.write(
            replace(self, facts=self.facts | {"means": self.means()}), folder, name
        )
        return replace(found, written=(*found.written, *drawn))

    def headline(self) -> str:
        """The paper's table: by level, the published number and then each method's."""
        blocks = {shape: rows for (shape,), rows in tables.grouped(self.rows, "shape").items()}
        blocks |= {
            f"**mean, {over}**": rows
            for (over,), rows in tables.grouped(self.means(), "over").items()
        }
        measures = {f"cosine_{k}": f"k≤{k}" for k in self.levels} | {"discrepancy": "λ disc."}
        shown = product(
            measures.items(), ["paper", *(name for name in self.methods if name != "oracle")]
        )
        columns = {"shape": "shape"} | {
            f"{key} {who}": f"{title} {who}" for (key, title), who in shown
        }
        lines = []
        for name, rows in blocks.items():
            line = {f"{key} {row['method']}": row.get(key) for row in rows for key in measures}
            known = {
                f"{key} paper": rows[0][f"paper_{key}"]
                for key in measures
                if f"paper_{key}" in rows[0]
            }
            lines.append({"shape": name} | known | line)
        return tables.markdown(lines, columns)

    def summary(self) -> str:
        """Means of every method."""
        columns = {"over": "mean over", "method": "method", "shapes": "shapes"}
        columns |= {f"cosine_{k}": f"k≤{k}" for k in self.levels}
        columns |= {"discrepancy": "λ disc.", "deviation": "±"}
        columns |= {f"rebuild_ratio_{k}": f"xyz/oracle k={k}" for k in self.levels}
        columns |= {"mass_correlation": "mass~area", "gap": "loss gap", "seconds": "s"}
        return tables.markdown(self.means(), columns, formats={"seconds": ".2f"})

    def remarks(self) -> list[str]:
        """Where the coordinates are rebuilt better than by the oracle, what differs, what was
        skipped.
        """
        remarks = []
        for method in [name for name in self.methods if name not in PEERS]:
            better = {
                k: [r["shape"] for r in self.of(method) if (r.get(f"rebuild_ratio_{k}") or 1) < 1]
                for k in self.levels
            }
            if found := "; ".join(
                f"k={k}: {', '.join(names)}" for k, names in better.items() if names
            ):
                remarks.append(
                    f"Coordinates rebuilt better by {method} than by the oracle's basis: {found}."
                )
        notes = {row["shape"]: row["note"] for row in self.rows if row.get("note")}
        if listed := "; ".join(f"{shape} ({note})" for shape, note in notes.items()):
            remarks.append(f"Files that differ from the paper's: {listed}.")
        return remarks + [f"Skipped {name}: {why}." for name, why in self.failed.items()]


@dataclass(frozen=True)
class Measure:
    """What to measure: one file in, its rows out. Plain data, so that it can be sent to other
    processes.

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
            raise InputError(
                f"methods must be among {', '.join(METHODS)}, got {', '.join(unknown) or 'none'}"
            )
        if self.n < 3 or self.k < 2:
            raise InputError(
                f"expected n >= 3 points and k >= 2 vectors, got n={self.n} and k={self.k}"
            )

    def __call__(self, path: Path) -> Measured:
        shape = load(path)
        draw = Sample.inside if self.volume else Sample.on_surface
        sample = draw(shape, self.n if self.volume else min(self.n, shape.n), self.k, self.seed)
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

    def basis(self, method: str, sample: Sample) -> Basis:
        """The method's answer from the points alone (the oracle's, for itself)."""
        if method == "robust":
            return point_cloud(sample.points, self.k)
        if method == "oracle":
            weights = sample.areas / sample.areas.sum()
            normalized = sample.vectors * np.sqrt(weights)[:, None]
            return Basis(
                normalized, weights, sample.eigenvalues, sample.points, {"method": "oracle"}
            )
        from eigenprobe.decomposition import Method, decompose

        options = self.options if method == "pretrained" else {"seed": self.seed, **self.options}
        return decompose(sample.points, k=self.k, method=cast(Method, method), **options).numpy()

    def row(self, method: str, sample: Sample, basis: Basis) -> Record:
        """All measures of one method on one shape but its time."""
        ks, shape = levels(self.k), sample.shape
        row: Record = {
            "shape": shape.name,
            "method": method,
            "vertices": shape.n,
            "n": len(sample.points),
        }
        row |= agreement(sample.compare(basis.vectors, basis.eigenvalues), ks)
        x, areas = sample.points, sample.areas
        exact = {
            k: weighted_error(x, rebuild_weighted(sample.vectors, x, k, areas), areas) for k in ks
        }
        ours = (
            exact
            if method == "oracle"
            else {k: weighted_error(x, rebuild(basis, x, k), areas) for k in ks}
        )
        row |= {f"rebuild_{k}": ours[k] for k in ks}
        if method != "oracle":
            row |= {f"rebuild_ratio_{k}": ours[k] / exact[k] for k in ks}
            if not self.volume:
                row["mass_correlation"] = mass_correlation(basis.mass, areas)
        if (dimension := basis.info.get("dimension")) is not None:
            row["dimension"] = float(dimension)
        return row


def run(
    paths: Sequence[str | Path], measure: Measure, jobs: int = 1, published: Published | None = None
) -> Evaluation:
    """Measure files and folders of meshes, ``jobs`` shapes at a time.

    A file that cannot be used is named in ``Evaluation.failed`` and skipped; only when none can is
    it an error.
    """
    facts = {name: value for name, value in asdict(measure).items() if name != "figures"}
    return Evaluation(
        *measure_files(measure, paths, jobs), facts, published=published
    ).beside_published()


def draw_shape(
    folder: Path, sample: Sample, bases: dict[str, Basis], levels: tuple[int, ...]
) -> None:
    """All figures of one shape into ``folder``."""
    from eigenprobe.viz import figures

    folder.mkdir(parents=True, exist_ok=True)
    name = sample.shape.name
    points, faces = sample.points, None
    if len(sample.indices):
        points, faces = sample.shape.vertices, sample.shape.faces

    def carry(values: Array) -> Array:
        if faces is None:
            return np.asarray(values)
        known = torch.as_tensor(values, dtype=torch.float64).reshape(len(sample.points), -1)
        found = KernelExtension(torch.as_tensor(sample.points), known)(torch.as_tensor(points))
        return found.numpy().reshape(-1, *np.shape(values)[1:])

    curves = {method: basis.eigenvalues for method, basis in bases.items() if method != "oracle"}
    figures.eigenvalue_curves(
        {**curves, "oracle": sample.eigenvalues}, folder / f"{name}-eigenvalues.png", title=name
    )
    exact = {
        k: carry(rebuild_weighted(sample.vectors, sample.points, k, sample.areas)) for k in levels
    }
    truth = None if faces is None else carry(sample.areas)
    for method, basis in bases.items():
        if method in PEERS:
            continue
        alignment = sample.compare(basis.vectors, basis.eigenvalues)
        look: dict[str, Any] = {"row_labels": (method, "oracle"), "size": PIXELS}
        vectors, mass, rebuilt = (
            folder / f"{name}-{method}-{what}.png" for what in ("vectors", "mass", "rebuilt")
        )
        shown = [i for i in SHOWN if i < alignment.k]
        ours, theirs = (carry(each)[:, shown] for each in (basis.vectors, sample.vectors))
        ours = ours * np.where((ours * theirs).sum(0) < 0, -1, 1)
        look |= {
            "notes": [""] * len(shown) + [f"|cos| = {alignment.cosines[i]:.3f}" for i in shown]
        }
        pairs, functions = [(points, faces)] * 2 * len(shown), [*ours.T, *theirs.T]
        titles = [f"vector {i + 1}" for i in shown]
        figures.gallery(pairs, titles, vectors, per_row=len(shown), values=functions, **look)
        masses = {"mass": carry(basis.mass)} | ({} if truth is None else {"reference": truth})
        shares = [len(sample.points) * each for each in masses.values()]
        pairs, titles = [(points, faces)] * len(masses), [*masses]
        figures.gallery(pairs, titles, mass, values=shares, signed=False, size=PIXELS)
        rows = [{k: carry(rebuild(basis, sample.points, k)) for k in levels}, exact]
        shapes = [(each, faces) for row in rows for each in (points, *row.values())]
        titles = ["input", *(f"k = {k}" for k in levels)]
        look |= {"notes": (), "like": points}
        figures.gallery(shapes, titles, rebuilt, per_row=len(titles), **look)
