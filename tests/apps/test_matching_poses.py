"""Functional maps between two poses of real shapes: our basis of the bare points against the mesh
Laplacian's.

The poses of the data have no common vertices, so the truth between them is unknown. Here the second
pose is the first, bent about its middle and with its vertices in another order: the truth is then
that order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.apps import match

pytestmark = pytest.mark.long

VECTORS = 50


def bend(vertices: np.ndarray, angle: float = 1.2) -> np.ndarray:
    """Bend a shape along its longest axis by `angle`: cross-sections turn rigidly about a curved
    centre line.
    """
    centred = vertices - vertices.mean(0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    along, across, out = (centred @ axes).T
    length = np.ptp(along)

    def turn(s: np.ndarray) -> np.ndarray:
        x = np.clip(s / (0.35 * length) + 0.5, 0, 1)
        return angle * x * x * (3 - 2 * x)

    line = np.linspace(along.min(), along.max(), 2000)
    middle = turn((line[1:] + line[:-1]) / 2)
    step = line[1] - line[0]
    x = np.interp(along, line, np.concatenate([[0], np.cumsum(np.cos(middle) * step)]))
    z = np.interp(along, line, np.concatenate([[0], np.cumsum(np.sin(middle) * step)]))
    return np.stack([x - np.sin(turn(along)) * out, across, z + np.cos(turn(along)) * out], 1)


def mean_geodesic_error(
    vertices: np.ndarray, faces: np.ndarray, found: np.ndarray, truth: np.ndarray
) -> float:
    """Mean distance on the surface between found and true source points, over the root of the area,
    at 200 points.
    """
    geodesics = pytest.importorskip(
        "potpourri3d", reason="potpourri3d is not installed"
    ).MeshHeatMethodDistanceSolver
    solver = geodesics(vertices, faces)
    chosen = np.random.default_rng(0).choice(len(found), 200, replace=False)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    return float(
        np.mean([solver.compute_distance(int(truth[i]))[found[i]] for i in chosen]) / np.sqrt(area)
    )


SHAPES = [
    "deftransfer_pyfm__camel-gallop-03.off",
    "deftransfer_pyfm__lion-00.off",
    "tosca_iso_r5k__dog0.off",
    "tosca_iso_r5k__michael0.off",
]


def errors_of(path: Path) -> tuple[float, float]:
    """Mean geodesic error of the map between a shape and its bent copy: with the oracle's basis,
    with ours.
    """
    shape = ep.geometry.load(path)
    vertices, faces = shape.vertices, shape.faces
    assert faces is not None
    order = np.random.default_rng(1).permutation(len(vertices))
    place = np.argsort(order)
    posed, posed_faces = bend(vertices)[order], place[faces]
    known = np.linspace(0, len(vertices) - 1, 7).astype(int)[
        :6
    ]  # six landmarks, against left and right mixing up
    landmarks = np.stack([known, place[known]], 1)
    bases = [
        (
            ep.geometry.oracle(vertices, faces, VECTORS),
            ep.geometry.oracle(posed, posed_faces, VECTORS),
        ),
        (ep.decompose(vertices, k=VECTORS), ep.decompose(posed, k=VECTORS)),
    ]
    found = [match(source, target, landmarks=landmarks, step=3)[0] for source, target in bases]
    oracle, direct = (mean_geodesic_error(vertices, faces, points, order) for points in found)
    return oracle, direct


@pytest.fixture(scope="module")
def errors(data_dir: Path) -> np.ndarray:
    return np.array([errors_of(data_dir / "surfaces" / name) for name in SHAPES])


@pytest.mark.data
def test_maps_between_poses_are_as_good_as_with_the_mesh_laplacian(errors: np.ndarray) -> None:
    assert errors[:, 0].max() < 0.05
    oracle, direct = errors.mean(0)
    assert direct <= 1.2 * oracle, errors


@pytest.mark.data
@pytest.mark.xfail(
    reason="michael0: .0081 of the root of the area, with the mesh .0055", strict=True
)
def test_those_of_every_shape_are(errors: np.ndarray) -> None:
    assert (errors[:, 1] <= 1.25 * errors[:, 0]).all(), errors
