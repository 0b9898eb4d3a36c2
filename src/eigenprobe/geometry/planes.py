"""The plane that most points of a cloud lie on: a floor or a table under an object.

|<n, x> - b| <= thickness              points (n, 3), unit normal n, by random triples, then least squares [RANSAC]

A floor is looked for in a layer of `SPACINGS`; what is removed is as thick as the scatter of the floor's own points, so
that feet that stand on it stay whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cloud import Array, points_and_faces
from ..errors import InputError
from ..host.validation import as_array, validated
from ..readers.mesh import Array as Numbers

TRIALS = 3000  # a plane of a tenth of the points is missed once in 20
SUBSET = 2000  # points that the planes of the trials are compared on
SPACINGS = 1.5  # half of the thickness of a plane, in mean distances of neighbours
SCATTER = 4.0  # the same in standard deviations of the points of the plane: one in 16,000 is farther away
MEDIAN = 0.6745  # of the distances of normal numbers from their mean, in standard deviations
ROUNDS = 6  # of least squares: the feet of an object tilt the first plane
ROUNDING = 1e-6  # the least thickness in those distances
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

    ``thickness`` is the largest distance from the plane of a point that belongs to it, by default four standard
    deviations of the points of the plane, and one and a half of the mean distance of neighbours at most. A plane that holds less than a tenth of the points is no floor, and an `InputError`.

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
    layer = thickness
    if layer is None:
        from scipy.spatial import cKDTree

        layer = SPACINGS * float(np.median(cKDTree(x).query(x, 5)[0][:, 1:].mean(1)))
    rng = np.random.default_rng(seed)
    subset = x[rng.choice(len(x), min(len(x), SUBSET), replace=False)]
    corners = subset[rng.integers(0, len(subset), (TRIALS, 3))]  # (t, 3, 3)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normals, axis=1)
    normals, corners = normals[length > 0] / length[length > 0, None], corners[length > 0]
    if not len(normals):
        raise InputError("expected points that span a plane, got points in a line")
    offsets = (normals * corners[:, 0]).sum(1)
    best = int((np.abs(subset @ normals.T - offsets) <= layer).sum(0).argmax())
    height, width = np.abs(x @ normals[best] - offsets[best]), layer
    for _ in range(ROUNDS):
        centre = x[height <= width].mean(0)
        normal = np.linalg.svd(x[height <= width] - centre, full_matrices=False)[2][-1]
        offset = float(normal @ centre)
        height = np.abs(x @ normal - offset)
        on = height <= layer
        if thickness is None:
            width = float(np.clip(SCATTER * np.median(height[on]) / MEDIAN, ROUNDING * layer, layer))
    beside = int(((height > layer) & (height <= 2 * layer)).sum())
    if on.mean() < LEAST or beside > BESIDE * on.sum():
        got = f"the best one holds {on.mean():.1%} of the points, and {beside} of {on.sum()} lie as thick beside it"
        raise InputError(f"no dominant plane: {got}; expected {LEAST:.0%} and few beside it")
    on = height <= width
    return np.flatnonzero(~on), Plane(normal, offset, width, np.flatnonzero(on))
