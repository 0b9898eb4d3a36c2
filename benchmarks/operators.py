"""Solves with L and M of a bare cloud against the same solves on the mesh that its points come
from.

    python -m benchmarks.operators MESHES... [--n 4000] [--nine]

Relative error in the norm of the area at the points (the mean over 20 right-hand sides for
Poisson), meshes scaled to area 1. Poisson: L u = M f for the first 20 eigenfunctions of the mesh.
Heat: ten implicit steps from a point, t = .01. Geodesics: mean error over mean distance from one
point, against exact ones on the mesh (libigl).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import igl
import numpy as np
import potpourri3d
import robust_laplacian
from scipy.sparse import diags_array
from scipy.sparse.linalg import splu

import eigenprobe as ep
from benchmarks.record import existing, facts, write
from eigenprobe.geometry.oracle import cotangent
from eigenprobe.io.mesh import face_areas
from eigenprobe.io.shapes import find_shapes
from eigenprobe_lab.paper.published import NINE

TIME, STEPS, RIGHT = 0.01, 10, 20
CLOUDS: dict[str, Callable[[np.ndarray], Any]] = {
    "eigenprobe": ep.laplacian,
    "robust_laplacian": robust_laplacian.point_cloud_laplacian,
}


def heat(stiffness: Any, mass: np.ndarray, source: int) -> np.ndarray:
    """Heat of total 1 from one point after ``TIME``."""
    step = splu((diags_array(mass) + TIME / STEPS * stiffness).tocsc())
    u = np.zeros(len(mass))
    u[source] = 1 / mass[source]
    for _ in range(STEPS):
        u = step.solve(mass * u)
    return u


def poisson(stiffness: Any, mass: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Solutions ``(n, m)`` of mean zero."""
    solve = splu((stiffness + 1e-8 * diags_array(mass)).tocsc()).solve
    u = solve(mass[:, None] * (f - mass @ f / mass.sum()))
    return u - mass @ u / mass.sum()


def exact(vertices: np.ndarray, faces: np.ndarray, source: int) -> np.ndarray:
    """Exact geodesic distances ``(v,)`` from a vertex of a mesh."""
    none, all_ = np.zeros(0, np.int64), np.arange(len(vertices))
    return np.asarray(igl.exact_geodesic(vertices, faces, np.array([source]), none, all_, none))


def measure(path: Path, n: int) -> dict[str, dict[str, float]]:
    """Method -> what -> error on one mesh."""
    shape = ep.geometry.load(path)
    assert shape.faces is not None
    vertices, faces = np.asarray(shape.vertices, float), np.asarray(shape.faces)
    vertices = vertices / face_areas(vertices, faces).sum() ** 0.5
    stiffness, area = cotangent(vertices, faces)
    area = np.maximum(area, 1e-3 * area.mean())
    index = np.asarray(ep.geometry.farthest_points(vertices, min(n, len(vertices)), seed=0))
    points, source = vertices[index], 0
    basis = ep.geometry.oracle(vertices, faces, RIGHT + 1)
    f = np.asarray(basis.vectors)[index, 1:]
    weights = area[index] / area[index].sum()
    answer = {
        "poisson": f / np.asarray(basis.eigenvalues)[1:],
        "heat": heat(stiffness, area, int(index[source]))[index, None],
        "geodesics": exact(vertices, faces, int(index[source]))[index],
    }
    errors: dict[str, dict[str, float]] = {}
    for name, make in CLOUDS.items():
        own, mass = make(points)
        m = mass.diagonal()
        found = {"poisson": poisson(own, m, f), "heat": heat(own, m, source)[:, None]}
        errors[name] = {}
        for what, u in found.items():
            rest, size = u - answer[what], answer[what]
            if what == "poisson":  # known up to a constant
                rest, size = rest - weights @ rest, size - weights @ size
            rest = (weights @ rest**2) / (weights @ size**2)
            errors[name][what] = float(np.sqrt(rest).mean())
        errors[name]["area"] = float(abs(m.sum() - 1))
    distances = {
        "eigenprobe": ep.apps.geodesic_distance(points, source),
        "robust_laplacian": potpourri3d.PointCloudHeatSolver(points).compute_distance(source),
    }
    for name, distance in distances.items():
        rest = np.abs(distance - answer["geodesics"])
        errors[name]["geodesics"] = float(weights @ rest / (weights @ answer["geodesics"]))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("meshes", type=existing, nargs="+")
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument(
        "--nine", action="store_true", help="the nine shapes of the paper's tables only"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = {}
    for path in find_shapes(options.meshes):
        if options.nine and path.stem not in NINE:
            continue
        rows[path.stem] = measure(path, options.n)
        ours, other = (rows[path.stem][name] for name in ("eigenprobe", "robust_laplacian"))
        shown = "   ".join(
            f"{what} {ours[what]:.3f} ({other[what]:.3f})"
            for what in ("poisson", "heat", "geodesics", "area")
        )
        print(f"{path.stem:40s} {shown}", flush=True)
    found: dict[str, Any] = {"n": options.n, "shapes": rows}
    for title, over in (("mean", np.mean), ("median", np.median)):
        found[title] = {
            name: {
                what: round(float(over([row[name][what] for row in rows.values()])), 4)
                for what in first
            }
            for name, first in next(iter(rows.values())).items()
        }
        print(title, found[title])
    write(
        "operators.json",
        facts("operators", "cpu", options, peers=("robust_laplacian", "potpourri3d")) | found,
    )


if __name__ == "__main__":
    main()
