"""The Laplacian and the mass of a cloud as sparse matrices, in the units of the points.

    L v = lambda M v         L (n, n) symmetric positive semi-definite, L 1 = 0, length^(dim-2);  lambda in length^-2
    M = diag(m)              length, area or volume of every point, length^dim
    L = M^1/2 (I - A) / tau M^1/2        of the smoother A with step time tau that `decompose` uses

Copies of a point are tied: with P (N, n) from distinct to given points and C = P^T P the number of copies,

    L_N = P C^-1 L C^-1 P^T + T,   M_N = diag(P C^-1 m)        T P = 0,  T = rate m_r (I / c_r - 1 1^T / c_r^2)

so that L_N P v = lambda M_N P v, and functions that differ between copies have the highest eigenvalue of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..annotations import door
from ..cloud import Array, Origin, check_points, each_of, several
from ..decomposition import PER_POINT, Space, differentiable, requires_derivatives, smoothed
from ..errors import InputError
from ..graph import Edges, Metric
from ..graph.arranged import Arranged
from ..pretrained.neighbours import Neighbours
from ..smoothers import Kind, Smoother
from ..smoothers.altered import Alteration
from ..smoothers.balanced import traced_stencil
from ..smoothers.cells import covered
from ..smoothers.smoother import csr, symmetric_matrix
from ..threads import limited_threads


@door
def laplacian(
    points: Any,
    *,
    neighbours: Neighbours | None = None,
    dimension: float | None = None,
    smoother: Kind | Smoother = "adaptive",
    metric: Space = "euclidean",
    device: str | torch.device | None = None,
    potential: Array | Sequence[Array] | None = None,
    boundary: str | Array | Sequence[Array] | None = None,
    anisotropy: float | Array | Sequence[Array] | None = None,
    measure: float | Array | Sequence[Array] | None = None,
) -> Any:
    """``L, M``: the Laplacian and the mass matrix of a point cloud, with ``L v = lambda M v`` in the points' units.

    ``robust_laplacian.point_cloud_laplacian(points)`` can be replaced by it as it stands.

    Parameters
    ----------
    points
        ``(n, d)``, a file, a mesh, or an object that carries points; a list of such gives a list of pairs. Rows and
        columns are in the order of the points.
    neighbours, dimension, smoother, metric, device, potential, boundary, anisotropy, measure
        As in `decompose`, which uses the same operator. A potential is on the diagonal of ``L``. Rows of points where
        functions vanish have nothing but a diagonal in ``L``, of the highest eigenvalue.

    Returns
    -------
    L
        Sparse, symmetric, positive semi-definite, rows sum to 0 (but for a potential or a boundary). Float64 scipy CSR;
        for tensors torch CSR in their precision and on their device, with gradients where the points require them.
    M
        Sparse and diagonal, the length (curve), area (surface) or volume (solid) that belongs to each point, in the
        given measure.

    Examples
    --------
    >>> angle = np.arange(200) * np.pi / 100
    >>> L, M = laplacian(np.stack([np.cos(angle), np.sin(angle)], 1))
    >>> print(round(float(M.sum() / (2 * np.pi)), 3), float(abs(L.sum(1)).max() < 1e-9))
    1.0 1.0
    """
    settings = {**locals()}
    if (clouds := several(settings.pop("points"))) is not None:
        if isinstance(smoother, Smoother):
            raise InputError("a smoother belongs to one cloud: give a list of clouds one of 'adaptive', 'symmetric'")
        return each_of(clouds, laplacian, settings, PER_POINT)
    x, origin = check_points(points, 1, device)
    operator = Alteration(potential, boundary, anisotropy, measure, metric == "scale-invariant")
    operator = replace(operator, moving=requires_derivatives(origin, operator.asked))
    near: Metric = "cosine" if metric == "cosine" else "euclidean"
    with limited_threads(x.device, len(x)):
        cloud, ready = smoothed(x, 1, smoother, operator, metric=near, neighbours=neighbours, dimension=dimension)
        if operator.moving and differentiable(ready, smoother):
            return traced_matrices(cloud, ready, origin)
        stiffness, mass = matrices(cloud, ready)
    return as_given(stiffness, origin), as_given(mass, origin)


def matrices(cloud: Arranged, smoother: Smoother) -> tuple[Any, Any]:
    """``L`` and ``M`` of all given points, float64 scipy CSR."""
    from scipy.sparse import csr_matrix, diags_array

    if not smoother.symmetric:
        raise InputError("a Laplacian needs a symmetric smoother, got kind 'row': use 'adaptive' or 'symmetric'")
    assert smoother.mass is not None
    scale, dimension = cloud.frame.scale, max(1, round(smoother.dimension))
    size = float(covered(smoother))
    mass = (smoother.mass.double() * size).cpu().numpy()  # (n,) in the frame
    rows, columns, weight = edge_weights(smoother)
    weight = weight * size
    degree: np.ndarray = np.bincount(rows, weight, minlength=smoother.n)
    if smoother.lowest is not None:
        assert smoother.leaving is not None
        degree = mass * (smoother.leaving.double().cpu().numpy() / float(smoother.step_time) + smoother.lowest)
    rate = 2 * float((degree / mass).max())  # Gershgorin's bound of the spectrum
    weights = csr_matrix((weight, (rows, columns)), shape=(smoother.n, smoother.n))
    stiffness = diags_array(degree) - (weights + weights.T) / 2
    if cloud.rows is not None:
        stiffness, mass = _spread(stiffness, mass, cloud.rows.cpu().numpy(), rate)
    return csr_matrix(stiffness) * scale ** (dimension - 2), csr_matrix(diags_array(mass * scale**dimension))


def traced_matrices(cloud: Arranged, smoother: Smoother, origin: Origin) -> tuple[Tensor, Tensor]:
    """``L`` and ``M`` as torch CSR with derivatives with respect to the given points; neighbours are held fixed."""
    if cloud.duplicates:
        raise InputError(f"expected distinct points to differentiate, got {cloud.duplicates} that coincide with others")
    stencil, graph = traced_stencil(origin.points, cloud, smoother.dimension), smoother.graph
    assert graph is not None
    moving = cloud.frame(cloud.collect(origin.points.to(cloud.given)))
    graph = replace(graph, points=moving, distances=(moving[graph.indices] - moving[:, None]).norm(dim=2))
    size = covered(replace(smoother, graph=graph, mass=stencil.mass)) / stencil.mass.sum()
    scale, dimension = cloud.frame.scale, max(1, round(smoother.dimension))
    weight, own = stencil.weight * size * scale ** (dimension - 2), stencil.mass * size * scale**dimension
    edges = stencil.edges
    degree = edges.at(weight)
    if cloud.kept is not None and cloud.rows is not None:
        edges = Edges(cloud.kept[edges.head], cloud.kept[edges.tail], edges.n)
        degree, own = degree[cloud.rows], own[cloud.rows]
    count = torch.arange(edges.n + 1, device=own.device)
    mass = csr(count, count[:-1], own, (edges.n, edges.n))
    stiffness = symmetric_matrix(edges, -weight, degree)
    return stiffness.to(origin.device, origin.dtype), mass.to(origin.device, origin.dtype)


def edge_weights(smoother: Smoother) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and weights of the edges, each both ways, for a mass that sums to 1."""
    assert smoother.mass is not None
    root = smoother.mass.double().sqrt().cpu().numpy()
    rows, columns, values = (part.cpu().numpy() for part in smoother.entries())
    off = rows != columns
    rows, columns = rows[off], columns[off]
    return rows, columns, values[off].astype(np.float64) / float(smoother.step_time) * root[rows] * root[columns]


def _spread(stiffness: Any, mass: np.ndarray, place: np.ndarray, rate: float) -> tuple[Any, np.ndarray]:
    """The same operator at all given points: ``place (N,)`` is the row of each; copies share mass and are tied."""
    from scipy.sparse import csr_matrix, diags_array

    copies = np.bincount(place, minlength=len(mass))
    share = csr_matrix((1 / copies[place], (np.arange(len(place)), place)), shape=(len(place), len(mass)))  # P C^-1
    whole = share @ stiffness @ share.T
    if copies.max() > 1:
        stiff = rate * mass * (copies > 1)
        whole = whole + diags_array((stiff / copies)[place]) - share @ diags_array(stiff) @ share.T
    return whole, (mass / copies)[place]


def as_given(matrix: Any, origin: Origin) -> Any:
    """A scipy CSR matrix as it is, or as torch CSR where the caller gave a tensor."""
    if origin.numpy:
        return matrix
    pointers, columns, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return csr(pointers, columns, values.to(origin.dtype), matrix.shape).to(origin.device)
