"""Which neighbours are real, measured: plain, learned and by an oracle, at several sizes and levels
of noise.

    mesh -> n farthest vertices, noise -> graph: all of the nearest | cut by the network | cut by
    mesh distances
         -> balanced weights -> basis -> |cosine| with the cotangent oracle, eigenvalue discrepancy

The oracle cuts edges whose distance over the mesh is more than ``ratio`` times the chord, as a
perfect judge would.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from trimesh import Trimesh

from eigenprobe.cloud.edges import keep_only
from eigenprobe.decomposition import decompose
from eigenprobe.errors import InputError
from eigenprobe.geometry import Shape, load, point_cloud
from eigenprobe.host.tables import Record
from eigenprobe.io.mesh import Array
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers import NEIGHBOURS, Smoother, build_smoother
from eigenprobe_lab.evaluation.reports import Report, grouped, markdown, mean_row

from .samples import Measured, Sample, agreement, measure_files

WAYS = ("plain", "learned", "oracle cut", "robust")
LEVELS = (10, 20, 50)
LEGEND = """plain: without the network, with the rules that need no training (thin sheets are
distinguished from solids, gaps within a sheet are bridged, rims are weighted along themselves);
learned: short-cuts are removed by the network; oracle cut: they are removed by a perfect judge;
robust: robust_laplacian."""
SHOWN = {f"cosine_{k}": f"k<={k}" for k in LEVELS} | {"discrepancy": "discrepancy"}


@dataclass(frozen=True)
class NeighbourMeasure:
    """What to measure on every file: plain data, so that it can be sent to other processes."""

    points: Sequence[int] = (500, 1500, 4000)
    noise: Sequence[float] = (0.0,)
    ratio: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.points, default=0) <= LEVELS[-1]:
            raise InputError(f"expected more than {LEVELS[-1]} points, got {list(self.points)}")
        if min(self.noise, default=-1) < 0:
            raise InputError(f"expected noise of at least 0 of the radius, got {list(self.noise)}")

    def __call__(self, path: Path) -> Measured:
        shape, rows, failed = load(path), [], {}
        for n in self.points:
            if shape.n < n:
                failed[f"n={n}"] = f"{shape.n} vertices"
                continue
            sample = Sample.on_surface(shape, n, LEVELS[-1], self.seed)
            for noise in self.noise:
                rows += [self.row(way, sample, noise) for way in WAYS]
        return rows, failed

    def row(self, way: str, sample: Sample, noise: float) -> Record:
        """One way on one cloud."""
        x = sample.points
        if noise:
            radius = np.linalg.norm(x - x.mean(0), axis=1).max()
            x = x + noise * radius * np.random.default_rng(self.seed).standard_normal(x.shape)
        if way == "robust":
            basis = point_cloud(x, LEVELS[-1])
        elif way == "oracle cut":
            basis = decompose(x, LEVELS[-1], smoother=self._cut(x, sample))
        else:
            basis = decompose(x, LEVELS[-1], neighbours=way)  # type: ignore[call-overload]
        labels = {"shape": sample.shape.name, "n": len(x), "noise": noise, "neighbours": way}
        return labels | agreement(sample.compare(basis.vectors, basis.eigenvalues), LEVELS)

    def _cut(self, x: Array, sample: Sample) -> Smoother:
        """The smoother of the cloud without the edges that are short-cuts on the mesh."""
        graph = build_graph(torch.from_numpy(np.ascontiguousarray(x)), NEIGHBOURS["adaptive"])
        far = mesh_distances(sample.shape, sample.indices, graph.indices.numpy())
        chord = np.linalg.norm(
            sample.points[graph.indices.numpy()] - sample.points[:, None], axis=2
        )
        kept = torch.from_numpy(far <= self.ratio * chord)
        return build_smoother(keep_only(graph, kept), dimension=2)


def mesh_distances(shape: Shape, rows: Array, neighbours: Array, block: int = 256) -> Array:
    """Lengths ``(n, k)`` of the shortest paths along edges from vertex ``rows[i]`` to
    ``rows[neighbours[i, j]]``.
    """
    mesh, vertices = Trimesh(shape.vertices, shape.faces, process=False), np.asarray(shape.vertices)
    edges = tuple(mesh.edges_unique.T)  # scipy adds doubled ones up
    matrix = coo_array((mesh.edges_unique_length, edges), shape=(len(vertices),) * 2).tocsr()
    found = np.empty(neighbours.shape)
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        chord = np.linalg.norm(
            vertices[rows[neighbours[part]]] - vertices[rows[part], None], axis=2
        )
        reached = dijkstra(matrix, directed=False, indices=rows[part], limit=4 * float(chord.max()))
        found[part] = np.take_along_axis(reached, rows[neighbours[part]], 1)
    return found


@dataclass(frozen=True)
class NeighbourReport(Report):
    """Means over the shapes, and where learning helps least."""

    def markdown(self) -> str:
        tables = []
        for (n, noise), rows in grouped(self.rows, "n", "noise").items():
            lines, by_shape = [], grouped(rows, "shape")
            for (way,), own in grouped(rows, "neighbours").items():
                lines.append(mean_row(own, list(SHOWN), neighbours=way))
            title = f"### n = {n}, noise {noise:g} of the radius, {len(by_shape)} shapes"
            cosines = {
                shape: {row["neighbours"]: row["cosine_10"] for row in own}
                for (shape,), own in by_shape.items()
            }
            change = sorted(
                (found["learned"] - found["plain"], shape) for shape, found in cosines.items()
            )
            worst = ", ".join(f"{shape} {gain:+.3f}" for gain, shape in change[:5])
            tables += [title, markdown(lines, {"neighbours": "neighbours", **SHOWN})]
            tables.append(f"Learned against plain, k<=10, worst: {worst}")
        return "\n\n".join([*tables, LEGEND])


def compare_neighbours(
    paths: Sequence[str | Path], measure: NeighbourMeasure, jobs: int = 1
) -> NeighbourReport:
    """Measure files and folders of meshes."""
    return NeighbourReport(*measure_files(measure, paths, jobs), asdict(measure))
