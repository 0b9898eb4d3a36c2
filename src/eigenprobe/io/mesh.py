"""Facts about a triangle mesh, vertices ``(v, 3)`` and faces ``(f, 3)``.

area_f = |(b - a) x (c - a)| / 2         closed: every directed edge (i, j) is matched by exactly
                                         one (j, i)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..errors import InputError
from ..host.validation import as_array, validated
from ..points import points_and_faces

Array = NDArray[Any]
# a (vertices, faces) pair, or what `points_and_faces` takes: a file, a Shape, trimesh, PyVista, ...
Mesh = Any


def as_mesh(mesh: Mesh) -> tuple[Array, Array]:
    """Float64 vertices ``(v, 3)`` and int64 faces ``(f, 3)`` of anything mesh-like, a file
    included, checked.
    """
    pair = isinstance(mesh, (tuple, list)) and len(mesh) == 2
    vertices, faces = mesh if pair else points_and_faces(mesh)
    if faces is None:
        raise InputError("expected a mesh with faces, got a point cloud")
    return check_mesh(vertices, faces)


def check_mesh(vertices: object, faces: object) -> tuple[Array, Array]:
    """The two arrays of a mesh in float64 and int64; an error names the first thing that is wrong
    with them.
    """
    vertices = np.ascontiguousarray(to_numpy(vertices))
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        raise InputError(f"vertices must have shape (v, 3), got {vertices.shape}")
    if not np.isfinite(vertices).all():
        bad = int(np.flatnonzero(~np.isfinite(vertices).all(1))[0])
        raise InputError(f"vertices must be finite, vertex {bad} is {vertices[bad].tolist()}")
    return vertices, check_faces(to_numpy(faces, None), len(vertices), "vertices")


def check_faces(faces: Array, n: int, of: str) -> Array:
    """Triangles ``(f, 3)`` between ``n`` points, int64."""
    if faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0:
        raise InputError(f"faces must have shape (f, 3) with at least one face, got {faces.shape}")
    if not np.issubdtype(faces.dtype, np.integer):
        raise InputError(f"faces must be integers, got {faces.dtype}")
    if faces.min() < 0 or faces.max() >= n:
        raise InputError(f"faces must index {n} {of}, got indices {faces.min()} to {faces.max()}")
    return np.ascontiguousarray(faces, dtype=np.int64)


def to_numpy(values: object, dtype: object = np.float64) -> Any:
    """A numpy view of an array, tensor or list."""
    return as_array(values, dtype)


@validated
def face_areas(vertices: Array, faces: Array) -> Array:
    """The area of every face.

    Parameters
    ----------
    vertices, faces
        The mesh, ``(v, 3)`` and ``(f, 3)``.

    Returns
    -------
    Array
        ``(f,)``.

    Examples
    --------
    >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> face_areas(vertices, faces).round(2).tolist()
    [0.5, 0.5, 0.5, 0.87]
    """
    vertices, faces = check_mesh(vertices, faces)
    import trimesh

    return trimesh.triangles.area(vertices[faces])


@validated
def vertex_areas(vertices: Array, faces: Array) -> Array:
    """A third of the area of the faces around every vertex: in sum that of the mesh.

    Parameters
    ----------
    vertices, faces
        The mesh, ``(v, 3)`` and ``(f, 3)``.

    Returns
    -------
    Array
        ``(v,)``.

    Examples
    --------
    >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> vertex_areas(vertices, faces).round(2).tolist()
    [0.5, 0.62, 0.62, 0.62]
    """
    vertices, faces = check_mesh(vertices, faces)
    share = np.repeat(face_areas(vertices, faces) / 3, 3)
    return np.bincount(faces.ravel(), weights=share, minlength=len(vertices))


@validated
def is_closed(faces: Array) -> tuple[bool, str]:
    """Whether the faces bound a solid: each edge is that of a neighbour, walked the other way.

    Parameters
    ----------
    faces
        Of the mesh, ``(f, 3)``.

    Returns
    -------
    closed
        True or False.
    reason
        Empty, or why not: boundary edges, or faces turned against their neighbours.

    Examples
    --------
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> is_closed(faces), is_closed(faces[1:])
    ((True, ''), (False, '3 boundary (or inconsistently turned) edges'))
    """
    faces = to_numpy(faces, None)
    faces = check_faces(faces, int(faces.max(initial=0)) + 1, "vertices")
    walks = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    size = int(faces.max()) + 1
    edges = sparse.csr_array((np.ones(faces.size), walks), (size, size))  # how often each is walked
    if unmatched := (edges > edges.T).nnz:
        return False, f"{unmatched} boundary (or inconsistently turned) edges"
    return True, ""
