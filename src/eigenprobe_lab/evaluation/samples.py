"""A mesh reduced to points with its oracle there, and the loop over files that every table of
shapes shares.

mesh         n farthest vertices (n, 3)     oracle: the Laplacian of the whole mesh, read off at
them closed mesh  n points inside (n, 3)         oracle: the Laplacian of a grid that fills it
npz          what `Sample.save` wrote       for machines without the mesh libraries
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.evaluation import Alignment, compare_vectors
from eigenprobe.extensions import NetworkExtension
from eigenprobe.geometry import Shape, farthest_points, find_shapes, load, sample_volume
from eigenprobe.host.files import reading_npz, write_npz
from eigenprobe.host.tables import Record
from eigenprobe.io.mesh import Array, as_mesh
from eigenprobe_lab.evaluation.reports import in_parallel

from .areas import nearest_sample_areas
from .oracles import cached_oracle

Part = tuple[Any, ...]  # of what is measured of a file: further arguments
Measured = tuple[list[Record], dict[str, str]]  # rows, and why some could not be had


@dataclass(frozen=True)
class Sample:
    """Points of a shape and the oracle there."""

    shape: Shape
    points: Array  # (n, 3)
    vectors: Array  # (n, K) of the oracle
    eigenvalues: Array  # (K,)
    indices: Array  # (n,) the points among the mesh's vertices; (0,) of points inside
    areas: Array  # (n,) of the surface nearest to each point; inside a solid, equal shares

    @classmethod
    def of_file(cls, path: Path, n: int, k: int, seed: int) -> Self:
        """``n`` farthest vertices of a mesh (all, where it has fewer), or a sample as it was
        saved.
        """
        if path.suffix == ".npz":
            return cls.load(path, k)
        shape = load(path)
        return cls.on_surface(shape, min(n, shape.n), k, seed)

    def save(self, path: Path) -> None:
        """Vertices, which of them are the points, areas, and the oracle there, in one npz of single
        precision.
        """
        arrays = {"vertices": self.shape.vertices, "vectors": self.vectors, "areas": self.areas}
        single: dict[str, Any] = {
            name: np.asarray(value, np.float32) for name, value in arrays.items()
        }
        single |= {"indices": self.indices, "eigenvalues": self.eigenvalues}
        write_npz(path, single, compressed=True)

    @classmethod
    def load(cls, path: Path, k: int | None = None) -> Self:
        """What `save` wrote, its first ``k`` vectors."""
        wanted = ("vertices", "indices", "vectors", "eigenvalues", "areas")
        with reading_npz(path) as archive:  # an error where it is no saved sample
            vertices, indices, vectors, values, areas = (archive[name] for name in wanted)
        if k is not None and k > len(values):
            raise InputError(f"{path.name} holds {len(values)} vectors of the oracle, got k={k}")
        shape = Shape(vertices, None, path.stem)
        return cls(shape, vertices[indices], vectors[:, :k], values[:k], indices, areas)

    @classmethod
    def on_surface(cls, shape: Shape, n: int, k: int, seed: int) -> Self:
        """``n`` farthest vertices."""
        vertices, faces = as_mesh(shape)
        if k >= n:
            raise InputError(f"{shape.name} has {n} points, too few for k={k} vectors")
        indices = farthest_points(vertices, n, seed)
        exact = cached_oracle(vertices, faces, k)
        points = vertices[indices]
        areas = nearest_sample_areas((vertices, faces), points)
        return cls(shape, points, exact.vectors[indices], exact.eigenvalues, indices, areas)

    @classmethod
    def inside(cls, shape: Shape, n: int, k: int, seed: int) -> Self:
        """``n`` spread points inside a closed mesh."""
        from .grid import grid_oracle

        points = sample_volume(shape, n, seed, spread=True)
        return cls(
            shape, points, *grid_oracle(shape, points, k), np.zeros(0, int), np.full(n, 1 / n)
        )

    def compare(self, vectors: Array, eigenvalues: Array) -> Alignment:
        """A basis at these points against the oracle."""
        return compare_vectors(vectors, self.vectors, eigenvalues, self.eigenvalues)


def agreement(alignment: Alignment, levels: Sequence[int]) -> dict[str, float]:
    """One row of measures: cosines by index, matched and as subspaces at each level, and eigenvalue
    errors.
    """
    names = ("cosine", "matched", "subspace")
    k = levels[-1]
    errors = {
        "discrepancy": alignment.eigenvalue_discrepancy(k),
        "deviation": float(alignment.discrepancies[: k - 1].std()),
    }
    return {f"{name}_{k}": getattr(alignment, name)(k) for name in names for k in levels} | errors


def measure_files(
    measure: Callable[..., Measured],
    paths: Sequence[str | Path],
    jobs: int = 1,
    parts: Sequence[Part] = ((),),
) -> Measured:
    """``measure(file, *part)`` of files and of all that folders hold, ``jobs`` at a time. A file
    that cannot be used is skipped and its reason kept; only when none can is it an error."""
    files = find_shapes([Path(path) for path in paths])
    tasks = [(path, *part) for path in files for part in parts]

    def guarded(*task: Any) -> Measured:
        try:
            return measure(*task)
        except (InputError, OSError) as error:
            return [], {"": str(error)}

    rows: list[Record] = []
    failed: dict[str, str] = {}
    results = in_parallel(guarded, tasks, "measuring", len(tasks), jobs)
    for (path, *_), (found, reasons) in zip(tasks, results, strict=True):
        rows += found
        failed |= {
            f"{path.name} ({what})" if what else path.name: why for what, why in reasons.items()
        }
    if not rows:
        listed = "; ".join(f"{name}: {why}" for name, why in failed.items()) or "no files"
        raise InputError(f"none of the shapes could be measured: {listed}")
    return rows, failed


def fitted_network(basis: Basis) -> NetworkExtension:
    """The function that a basis is, where a network was fitted; an error of other bases."""
    if not isinstance(basis.extension, NetworkExtension):
        raise InputError(
            f"expected a basis of a fitted network, got one of method {basis.info.get('method')!r}"
        )
    return basis.extension
