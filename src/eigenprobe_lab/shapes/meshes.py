"""Real meshes to learn from: refined to dense points, with paths along their faces.

    read      NAME/v (n, 3), NAME/f (m, 3) of one npz file; the largest component of each
    refine    the longest edge of its faces is halved, again and again, until there are N vertices
    links     edges, and diagonals of two faces unfolded into a plane: length of the straight line

`c` meshes of `N` dense points in farthest-point order, 12 links each.  A mesh knows its paths: two
sheets that nearly touch are not linked, whichever way their normals point.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from trimesh import Trimesh

from eigenprobe.errors import InputError
from eigenprobe.geometry import farthest_points
from eigenprobe.host.files import reading_npz
from eigenprobe.io.mesh import Array

from .contacts import LINKS, SPREAD, Spread, spread_order
from .dense import Dense
from .fields import take

FEWEST = 100  # vertices of a mesh
HELD_OUT = 10  # every tenth mesh is not trained on


def read_meshes(path: Path) -> list[tuple[Array, Array]]:
    """Vertices and faces of the meshes ``NAME/v``, ``NAME/f`` of an npz file, by name."""
    with reading_npz(path) as archive:
        known = archive.keys()
        names = sorted(name[:-2] for name in known if name.endswith("/v"))
        found = [(archive[f"{name}/v"], archive[f"{name}/f"]) for name in names]
    if not found:
        raise InputError(f"expected meshes NAME/v and NAME/f in {path}, got none")
    return found


def largest_component(vertices: Array, faces: Array) -> tuple[Array, Array]:
    """Coinciding vertices joined; faces of the largest part, outward where it is closed."""
    mesh = Trimesh(vertices.astype(np.float64), faces)
    mesh.update_faces(mesh.nondegenerate_faces())
    part = max(mesh.split(only_watertight=False), key=lambda part: len(part.faces))
    if part.volume < 0:
        part.invert()
    return part.vertices, part.faces


def edges_of(faces: Array) -> tuple[Array, Array]:
    """The edges ``(e, 2)`` and, of every face, those opposite to its corners ``(f, 3)``."""
    pairs = np.sort(faces[:, [[1, 2], [2, 0], [0, 1]]].reshape(-1, 2), axis=1).astype(np.int64)
    n = int(faces.max()) + 1
    keys, place = np.unique(pairs[:, 0] * n + pairs[:, 1], return_inverse=True)
    return np.stack([keys // n, keys % n], 1), place.reshape(-1, 3)


def refine(vertices: Array, faces: Array, count: int) -> tuple[Array, Array]:
    """The mesh with ``count`` vertices: edges that are the longest of all their faces are halved,
    the longest first.
    """
    vertices, faces = np.asarray(vertices, np.float64), np.asarray(faces, np.int64)
    while len(vertices) < count:
        edges, of_face = edges_of(faces)
        length = np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1)
        rank = np.empty(len(edges), np.int64)
        rank[np.argsort(length, kind="stable")] = np.arange(len(edges))  # no two are alike
        corner = rank[of_face].argmax(1)  # opposite to the longest edge
        longest = np.take_along_axis(of_face, corner[:, None], 1)[:, 0]
        votes = np.bincount(longest, minlength=len(edges))
        whole = votes == np.bincount(of_face.reshape(-1), minlength=len(edges))
        split = np.flatnonzero(whole & (length > 0.6 * length.max()))
        split = split[np.argsort(-length[split], kind="stable")][: count - len(vertices)]
        middle = np.full(len(edges), -1)
        middle[split] = len(vertices) + np.arange(len(split))
        vertices = np.concatenate([vertices, vertices[edges[split]].mean(1)])
        cut = middle[longest] >= 0
        turned = np.take_along_axis(faces[cut], (corner[cut, None] + np.arange(3)) % 3, 1)
        new = middle[longest[cut]]
        first = np.stack([turned[:, 0], turned[:, 1], new], 1)
        second = np.stack([turned[:, 0], new, turned[:, 2]], 1)
        faces = np.concatenate([faces[~cut], first, second])
    return vertices, faces


def mesh_links(vertices: Array, faces: Array) -> tuple[Array, Array]:
    """Neighbours and lengths ``(N, 12)`` along a mesh; a link that is not there is infinitely
    long.
    """
    edges, of_face = edges_of(faces)
    length = np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1)
    order = np.argsort(of_face.reshape(-1), kind="stable")
    first = np.searchsorted(of_face.reshape(-1)[order], np.arange(len(edges)))
    inner = np.bincount(of_face.reshape(-1), minlength=len(edges)) == 2
    a, b = vertices[edges[inner]].transpose(1, 0, 2)
    c, d = (faces.reshape(-1)[order[first[inner] + i]] for i in (0, 1))  # corners opposite to it
    along = (b - a) / np.maximum(length[inner, None], 1e-12)
    x, y = zip(*(_unfolded(vertices[corner] - a, along) for corner in (c, d)), strict=True)
    crossing = x[0] + (x[1] - x[0]) * y[0] / np.maximum(y[0] + y[1], 1e-12)
    convex = (crossing > 0) & (crossing < length[inner])
    far = np.hypot(x[0] - x[1], y[0] + y[1])[convex]
    ends = np.concatenate([edges, np.stack([c, d], 1)[convex]])
    lengths, kind = np.concatenate([length, far]), np.arange(len(ends)) >= len(edges)
    start, end = np.concatenate([ends, ends[:, ::-1]]).T
    lengths, kind = np.tile(lengths, 2), np.tile(kind, 2)
    order = np.lexsort((lengths, kind, start))  # edges before diagonals, the shortest first
    start, end, lengths = start[order], end[order], lengths[order]
    rank = np.arange(len(start)) - np.searchsorted(start, start)
    kept = rank < LINKS
    index = np.tile(np.arange(len(vertices))[:, None], (1, LINKS))
    found = np.full((len(vertices), LINKS), np.inf)
    index[start[kept], rank[kept]] = end[kept]
    found[start[kept], rank[kept]] = np.maximum(lengths[kept], 1e-9)
    return index, found


def _unfolded(offset: Array, along: Array) -> tuple[Array, Array]:
    """Coordinates along an edge and away from it."""
    x = (offset * along).sum(1)
    return x, np.linalg.norm(offset - x[:, None] * along, axis=1)


@dataclass
class MeshShapes:
    """Numbered blocks of ``count`` meshes of ``dense`` points, the last ``kept`` of which
    stay in memory.  Points of open surfaces, which are seen from both sides, have part 1.
    """

    path: Path
    seed: int
    device: torch.device
    count: int
    dense: int
    most: int
    kept: int
    held_out: bool = False  # the meshes that are not trained on
    spread: Spread = SPREAD
    _meshes: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)
    _blocks: dict[int, tuple[Dense, tuple[Tensor, Tensor], Tensor]] = field(default_factory=dict)

    @cached_property
    def meshes(self) -> list[tuple[Array, Array]]:
        """Vertices and faces of the largest components that have at most ``dense`` vertices."""
        whole = [largest_component(*mesh) for mesh in read_meshes(self.path)]
        fit = [mesh for mesh in whole if FEWEST <= len(mesh[0]) <= self.dense]
        found = [mesh for i, mesh in enumerate(fit) if (i % HELD_OUT == 0) == self.held_out]
        if not found:
            raise InputError(
                f"expected meshes of {FEWEST} to {self.dense} vertices in {self.path}, got too few"
            )
        return found

    def block(self, index: int) -> tuple[Dense, tuple[Tensor, Tensor], Tensor]:
        """Shapes, the links between their points, and the order of vertices of a coarser mesh."""
        if index not in self._blocks:
            number = self.seed * 1_000_003 + index
            coin = torch.Generator().manual_seed(number)
            chosen = torch.randint(len(self.meshes), (self.count,), generator=coin).tolist()
            parts = zip(*(self._refined(each) for each in chosen), strict=True)
            shapes, links = _far_first(self.most, *(torch.stack(x).to(self.device) for x in parts))
            generator = torch.Generator(self.device).manual_seed(number)
            order = spread_order(shapes, self.most, generator, self.spread)
            self._blocks[index] = shapes, links, order
            for old in [i for i in self._blocks if i <= index - self.kept]:
                del self._blocks[old]
        return self._blocks[index]

    def _refined(self, number: int) -> tuple[Tensor, ...]:
        """Points, normals, part, neighbours and lengths of one mesh, refined once."""
        if number not in self._meshes:
            vertices, faces = refine(*self.meshes[number], self.dense)
            vertices = vertices - vertices.mean(0)
            vertices /= np.linalg.norm(vertices, axis=1).max()
            near, length = mesh_links(vertices, faces)
            mesh = Trimesh(vertices, faces, process=False)
            self._meshes[number] = (
                torch.from_numpy(vertices).float(),
                torch.from_numpy(np.array(mesh.vertex_normals)).float(),
                torch.full((len(vertices),), int(not mesh.is_watertight)),
                torch.from_numpy(near).int(),
                torch.from_numpy(length).float(),
            )
        return self._meshes[number]


def _far_first(
    most: int, points: Tensor, normals: Tensor, part: Tensor, near: Tensor, length: Tensor
) -> tuple[Dense, tuple[Tensor, Tensor]]:
    """Shapes ``(c, N)`` and their links, renumbered: the ``most`` farthest points come first."""
    first = farthest_points(points, min(points.shape[1], most), start=0)
    rank = torch.full_like(part, most).scatter_(
        1, first, torch.arange(first.shape[1], device=first.device).expand_as(first)
    )
    order = rank.argsort(dim=1, stable=True)
    near = order.argsort(dim=1).gather(1, take(near, order).long().flatten(1)).view_as(near)
    shapes = Dense(take(points, order), take(normals, order), part.gather(1, order))
    return shapes, (near, take(length, order))
