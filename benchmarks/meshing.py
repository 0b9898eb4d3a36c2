"""From a field to a closed mesh, and the shape that the package ships: a small four-legged animal.

    field (negative inside) on a grid -> marching tetrahedra -> vertices (v, 3), faces (f, 3)

A few rounds of smoothing, each projected back to the zero set along the gradient, make the vertices
evenly spaced.
"""

from itertools import permutations
from pathlib import Path

import numpy as np
import torch

from eigenprobe.host.threads import limited_threads
from eigenprobe.io.mesh import Array
from eigenprobe.neighbors.graph import Edges
from eigenprobe_lab.shapes.fields import Builder, Field, Rng
from eigenprobe_lab.shapes.source import project

LOW, HIGH = (-1.3, -1.12, -0.5), (1.5, 1.15, 0.5)  # a box around the animal
# start (3,), end (3,), radius at the start, radius at the end; x is forward, y up
LIMBS = np.loadtxt(
    Path(__file__).with_name("creature.csv"), delimiter=",", skiprows=1, usecols=range(1, 9)
)


def creature(resolution: int = 52) -> tuple[Array, Array]:
    """The animal as a closed mesh; ``resolution`` cells along its longest side.

    >>> vertices, faces = creature(24)
    >>> len(vertices) - len(faces) * 3 // 2 + len(faces)  # Euler characteristic of a sphere
    2
    """
    rng = Rng(1, torch.Generator().manual_seed(0))
    builder = Builder(rng)
    for *ends, first, last in LIMBS.tolist():
        builder.capsule(rng.point(*ends[:3]), rng.point(*ends[3:]), first, last)
    with limited_threads(torch.device("cpu"), resolution**2):  # many short operations
        return mesh_field(builder.build(blend=0.035), np.array(LOW), np.array(HIGH), resolution)


def mesh_field(field: Field, low: Array, high: Array, resolution: int) -> tuple[Array, Array]:
    """The largest piece of the zero set of one field within the box ``low (3,)`` to ``high (3,)``,
    evenly meshed.
    """
    step = float((high - low).max()) / resolution
    axes = [np.arange(a, b + step, step) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)  # (i, j, k, 3)
    with torch.no_grad():
        values = field(torch.from_numpy(grid.reshape(1, -1, 3)).float())[0].double().numpy()
    vertices, faces = march(grid, values)
    _, labels = mesh_edges(faces, len(vertices)).components
    kept = (labels == labels.bincount().argmax()).numpy()  # a coarse grid can cut thin tips off
    vertices, faces = vertices[kept], (np.cumsum(kept) - 1)[faces[kept[faces[:, 0]]]]
    return _evened(field, vertices, mesh_edges(faces, len(vertices))), faces


def march(grid: Array, values: Array) -> tuple[Array, Array]:
    """The zero set of linear interpolation on six tetrahedra per cell of a grid (i, j, k, 3),
    vertices shared.
    """
    ids: Array = np.arange(values.size).reshape(grid.shape[:3])
    points = grid.reshape(-1, 3)
    size = [length - 1 for length in ids.shape]
    tetrahedra: list[Array] = []
    for order in permutations(
        range(3)
    ):  # a path of three axis steps from one corner of a cell to the opposite one
        corner, path = np.zeros(3, dtype=int), []
        for axis in (None, *order):
            if axis is not None:
                corner[axis] = 1
            path.append(
                ids[tuple(slice(c, c + s) for c, s in zip(corner, size, strict=True))].ravel()
            )
        tetrahedra.append(np.stack(path, axis=1))
    cells = np.concatenate(tetrahedra)  # (t, 4)
    ranks = np.argsort(values[cells], axis=1, kind="stable")
    cells = np.take_along_axis(cells, ranks, axis=1)  # inside corners first
    count = (values[cells] < 0).sum(1)
    a, b, c, d = (cells[:, i] for i in range(4))
    one, two, three = (count == i for i in (1, 2, 3))
    edges = [
        (a, b, a, c, a, d, one),
        (a, d, b, d, c, d, three),
        (a, c, a, d, b, d, two),
        (a, c, b, d, b, c, two),
    ]
    triangles = np.concatenate([np.stack(edge[:6], axis=1)[edge[6]] for edge in edges]).reshape(
        -1, 3, 2
    )
    # With the corners in this order every triangle above faces outwards where the tetrahedron is
    # right-handed.
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    mirrored = np.concatenate([(np.linalg.det(sides) < 0)[edge[6]] for edge in edges])
    triangles[mirrored] = triangles[mirrored][:, ::-1]
    keys, faces = np.unique(triangles.reshape(-1, 2), axis=0, return_inverse=True)
    inside, outside = values[keys[:, 0]], values[keys[:, 1]]
    share = (inside / (inside - outside))[:, None]
    return points[keys[:, 0]] * (1 - share) + points[keys[:, 1]] * share, faces.reshape(-1, 3)


def mesh_edges(faces: Array, n: int) -> Edges:
    """The edges of a closed mesh with ``n`` vertices, each of which its two faces hold in opposite
    directions.
    """
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    once = start < end
    return Edges(torch.from_numpy(start[once]), torch.from_numpy(end[once]), n)


def _evened(field: Field, vertices: Array, edges: Edges, rounds: int = 12) -> Array:
    x = torch.from_numpy(vertices)
    degree = edges.at(torch.ones(len(edges), 1))
    for _ in range(rounds):
        x = 0.4 * x + 0.6 * (edges.at_head(x[edges.tail]) + edges.at_tail(x[edges.head])) / degree
        x = project(field, x.float()[None], steps=1)[0][0].double()
    return x.numpy()
