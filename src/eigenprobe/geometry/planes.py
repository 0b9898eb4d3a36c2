"""The plane that most points of a cloud lie on: a floor or a table under an object.

|<n, x> - b| <= thickness              points (n, 3), unit normal n, by random triples, then least squares [RANSAC]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cloud import Array, points_and_faces
from ..errors import InputError
from ..host.validation import as_array, validated
from ..readers.mesh import Array as Numbers

TRIALS = 400  # a plane of a fifth of the points is missed once in 25
SPACINGS = 1.5  # half of the thickness of a plane, in mean distances of neighbours
BESIDE = 0.4  # points just beside a plane over those on it: as many in a solid, few at a floor
LEAST = 0.1  # share of the points that makes a plane worth removing


class Plane(NamedTuple):
    """``<normal, x> = offset``, its half ``thickness`` and the ``rows`` of the points on it."""

    normal: Numbers
    offset: float
    thickness: float
    rows: Numbers


@validated
def remove_plane(points: Array, *, thickness: float | None = None, seed: int = 0) -> tuple[Numbers, Plane]:
    """The rows of a cloud ``(n, 3)`` that are left without its dominant plane, and that plane.

    ``thickness`` is the largest distance from the plane of a point that belongs to it, by default one and a half of the
    mean distance of neighbours. A plane that holds less than a tenth of the points is no floor, and an `InputError`.

    >>> rng = np.random.default_rng(0)
    >>> ball = rng.normal(size=(500, 3))
    >>> ball = ball / np.linalg.norm(ball, axis=1, keepdims=True) + [0, 0, 2]
    >>> floor = np.c_[rng.uniform(-3, 3, (800, 2)), np.zeros(800)]
    >>> rows, plane = remove_plane(np.concatenate([ball, floor]))
    >>> len(rows), bool(abs(plane.normal[2]) > 0.999)
    (500, True)
    """
    x = as_array(points_and_faces(points)[0], np.float64)
    if x.ndim != 2 or x.shape[1] != 3 or len(x) < 10:
        raise InputError(f"expected at least 10 points (n, 3) to find a plane in, got shape {x.shape}")
    if thickness is None:
        from scipy.spatial import cKDTree

        thickness = SPACINGS * float(np.median(cKDTree(x).query(x, 5)[0][:, 1:].mean(1)))
    rng = np.random.default_rng(seed)
    subset = x[rng.choice(len(x), min(len(x), 4000), replace=False)]
    corners = subset[rng.integers(0, len(subset), (TRIALS, 3))]  # (t, 3, 3)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normals, axis=1)
    normals, corners = normals[length > 0] / length[length > 0, None], corners[length > 0]
    if not len(normals):
        raise InputError("expected points that span a plane, got points in a line")
    offsets = (normals * corners[:, 0]).sum(1)
    best = int((np.abs(subset @ normals.T - offsets) <= thickness).sum(0).argmax())
    normal, offset = normals[best], float(offsets[best])
    for _ in range(3):
        on = np.abs(x @ normal - offset) <= thickness
        centre = x[on].mean(0)
        normal = np.linalg.svd(x[on] - centre, full_matrices=False)[2][-1]
        offset = float(normal @ centre)
    height = np.abs(x @ normal - offset)
    on = height <= thickness
    beside = int(((height > thickness) & (height <= 2 * thickness)).sum())
    if on.mean() < LEAST or beside > BESIDE * on.sum():
        got = f"the best one holds {on.mean():.1%} of the points, and {beside} of {on.sum()} lie as thick beside it"
        raise InputError(f"no dominant plane: {got}; expected {LEAST:.0%} and few beside it")
    return np.flatnonzero(~on), Plane(normal, offset, float(thickness), np.flatnonzero(on))
