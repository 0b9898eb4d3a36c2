"""The Laplacian, the mass and the gradient of a cloud as sparse matrices, in the units of the
points.

    L v = lambda M v         L (n, n) symmetric positive semi-definite, L 1 = 0, length^(dim-2);
    lambda in length^-2 M = diag(m)              length, area or volume of every point, length^dim
    L = M^1/2 (I - A) / tau M^1/2        of the smoother A with step time tau that `decompose` uses

Copies of a point are tied: with P (N, n) from distinct to given points and C = P^T P the number of
copies,

    L_N = P C^-1 L C^-1 P^T + T,   M_N = diag(P C^-1 m)        T P = 0,  T = rate m_r (I / c_r - 1
    1^T / c_r^2)

so that L_N P v = lambda M_N P v, and functions that differ between copies have the highest
eigenvalue of all.

The gradient in tangent frames T_i (d, dim), of the same edges with the same weights w_ij and l_ij =
T_i^T (x_j - x_i):

    g_i = argmin_g sum_j w_ij (f_j - f_i - g.l_ij)^2 = (sum_j w_ij l_ij l_ij^T)^-1 sum_j w_ij l_ij
    (f_j - f_i)

Exact for functions that are linear in the tangent plane.  Where the second moments are round (sum w
l l^T = 2 m I, as the balanced weights make them) it is the mean difference of the same edges that L
sums, and on smooth functions

    L f ~ sum_a G_a^T M G_a f         so that  div X = -sum_a M^-1 G_a^T M X_a  is the divergence of
    a field X (n, dim)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array, eye_array
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import Cloud
from ..cloud.edges import Neighbours
from ..decomposition import OperatorSettings, Parts, Resolution, Space, geometry_of, prepare
from ..decomposition.entry import Given, OperatorOptions
from ..errors import InputError
from ..host.threads import limited_threads
from ..host.validation import validated
from ..neighbors.graph import Edges
from ..points import Array, Origin, call_by_cloud, check_points, listed_clouds, values_by_cloud
from ..smoothers import Kind, Smoother
from ..smoothers.cells import covered
from ..smoothers.prepared import Prepared, traced_stencil
from ..smoothers.smoother import csr, from_scipy, symmetric_matrix

Matrix: TypeAlias = "csr_matrix | Tensor"  # the latter sparse CSR, where the caller gave a tensor
Pair = tuple[Matrix, Matrix]


@overload
def laplacian(  # type: ignore[overload-overlap]
    points: Tensor | Basis[Tensor], **options: Unpack[OperatorOptions]
) -> tuple[Tensor, Tensor]: ...


@overload
def laplacian(
    points: Given | Basis[NDArray[Any]], **options: Unpack[OperatorOptions]
) -> tuple[csr_matrix, csr_matrix]: ...


@overload
def laplacian(points: Any, **options: Unpack[OperatorOptions]) -> Any: ...


@validated  # type: ignore[misc]  # it takes neighbors= for neighbours=
def laplacian(
    points: Any,
    *,
    neighbours: Neighbours | None = None,
    dimension: float | None = None,
    smoother: Kind | Smoother = "adaptive",
    metric: Space = "euclidean",
    device: str | torch.device | None = None,
    potential: Array | Sequence[Array] | None = None,
    boundary: str | Array | Sequence[str | Array] | None = None,
    anisotropy: float | Array | Sequence[Array] | None = None,
    measure: float | Array | Sequence[Array] | None = None,
    resolution: Resolution = "auto",
    parts: Parts | None = None,
) -> Any:  # a pair, or a list of them
    """``L, M``: the Laplacian and the mass matrix of a point cloud, with ``L v = lambda M v`` in
    the points' units.

    ``robust_laplacian.point_cloud_laplacian(points)`` can be replaced by it as it stands.

    Parameters
    ----------
    points
        ``(n, d)``, a file, a mesh, or an object that carries points; a list of such gives a list of
        pairs. Rows and columns are in the order of the points. Or a `Basis`: the operator that made
        it, and no other settings.
    neighbours, dimension, smoother, metric, device, potential, boundary, anisotropy, measure,
    resolution, parts
        As in `decompose`, which uses the same operator. A potential is on the diagonal of ``L``.
        Rows of points where functions vanish have nothing but a diagonal in ``L``, of the highest
        eigenvalue. Where a working sample stands for the cloud, ``L`` acts on means over its cells
        and holds the points of a cell together; outliers have no mass.

    Returns
    -------
    L
        Sparse, symmetric, positive semi-definite, rows sum to 0 (but for a potential or a
        boundary). Float64 scipy CSR; for tensors torch CSR in their precision and on their device,
        with gradients where the points require them.
    M
        Sparse and diagonal, the length (curve), area (surface) or volume (solid) that belongs to
        each point, in the given measure.

    Examples
    --------
    >>> angle = np.arange(200) * np.pi / 100
    >>> L, M = laplacian(np.stack([np.cos(angle), np.sin(angle)], 1))
    >>> print(round(float(M.sum() / (2 * np.pi)), 3), float(abs(L.sum(1)).max() < 1e-9))
    1.0 1.0
    """
    clouds, fixed = listed_clouds(points), (smoother, metric, neighbours, None, dimension)
    if clouds is None:
        one = OperatorSettings(*fixed, potential, boundary, anisotropy, measure, resolution, parts)
        return _of_cloud(points, one, device)
    if isinstance(smoother, Smoother):
        raise InputError(
            "a smoother belongs to one cloud: give a list of clouds one of 'adaptive', 'symmetric'"
        )
    listed = {
        "potential": potential,
        "boundary": boundary,
        "anisotropy": anisotropy,
        "measure": measure,
    }
    own = values_by_cloud(listed, len(clouds))
    wanted = partial(OperatorSettings, *fixed, resolution=resolution, parts=parts)
    return call_by_cloud(len(clouds), lambda i: _of_cloud(clouds[i], wanted(**own[i]), device))


def _of_cloud(points: Any, wanted: OperatorSettings, device: str | torch.device | None) -> Pair:
    """``L`` and ``M`` of one cloud, or of the operator that made a basis."""
    if isinstance(points, Basis):
        _refuse(wanted)
        made = points.prepared()
        _, origin = check_points(points.points, 1)
        settings = points.source.settings if points.source is not None else None
        traced = isinstance(settings, OperatorSettings) and settings.differentiable(made.smoother)
        with limited_threads(made.smoother.device, made.smoother.n):
            return _matrices_as_given(made, origin, traced)
    x, origin = check_points(points, 1, device)
    wanted = wanted.traced(origin)
    with limited_threads(x.device, len(x)):
        made = prepare(x, wanted, 1)
        return _matrices_as_given(made, origin, wanted.differentiable(made.smoother))


def _refuse(wanted: OperatorSettings) -> None:
    """A basis has its operator already: other settings are an error, not silence."""
    if chosen := wanted.record():
        name = chosen["arrays"][0] if "arrays" in chosen else next(iter(chosen))
        raise InputError(
            f"a basis has its own operator: {name} is not taken together with one; give its points"
        )


def _matrices_as_given(made: Prepared, origin: Origin, traced: bool) -> Pair:
    if traced:
        return traced_matrices(made.cloud, made.smoother, origin)
    stiffness, mass = matrices(made.cloud, made.smoother)
    return as_given(stiffness, origin), as_given(mass, origin)


def _groups(cloud: Cloud, count: int) -> tuple[csr_matrix, csr_matrix]:
    """P, the row of every given point ``(N, n)``, and R, means over those of a row ``(n, N)``."""
    assert cloud.rows is not None
    rows, shares = cloud.rows.cpu().numpy(), cloud.shares.cpu().numpy()
    place, shape = np.arange(len(rows)), (len(rows), count)
    to_points = csr_matrix((np.ones(len(rows)), (place, rows)), shape)
    return to_points, csr_matrix((shares, (rows, place)), shape[::-1])


def _at_given(
    cloud: Cloud, stiffness: csr_matrix, mass: np.ndarray
) -> tuple[csr_matrix, np.ndarray]:
    """The operator of the rows of a cloud at its given points: ``R^T L R``, R the means over those
    of a row, and ties within them.

    A point that is not the mean of its row is pulled to it at the highest rate of the spectrum
    [Gershgorin]; so are points without mass, a thousandth as strongly.
    """
    to_points, means = _groups(cloud, len(mass))
    shares = np.asarray(means.sum(0)).ravel()
    apart = eye_array(len(shares), format="csr") - to_points @ means
    apart.eliminate_zeros()
    rate = 2 * float((stiffness.diagonal() / mass).max())
    own = to_points @ mass
    pull = rate * own * np.where(shares > 0, shares, 1e-3 * shares[shares > 0].mean())
    whole = means.T @ stiffness @ means + apart.T @ diags_array(pull) @ apart
    return csr_matrix(whole), own * shares


def matrices(cloud: Cloud, smoother: Smoother) -> tuple[csr_matrix, csr_matrix]:
    """``L`` and ``M`` of all given points, float64 scipy CSR."""
    if not smoother.symmetric:
        raise InputError(
            "a Laplacian needs a symmetric smoother, got kind 'row': use 'adaptive' or 'symmetric'"
        )
    scale, dimension = cloud.frame.scale, max(1, round(smoother.dimension))
    size = float(covered(smoother))
    mass = (smoother.mass.double() * size).cpu().numpy()  # (n,) in the frame
    rows, columns, weight = edge_weights(smoother)
    weight = weight * size
    degree: np.ndarray = np.bincount(rows, weight, minlength=smoother.n)
    if smoother.lowest is not None:
        degree = mass * (
            smoother.known_degree.double().cpu().numpy() / float(smoother.step_time)
            + smoother.lowest
        )
    weights = csr_matrix((weight, (rows, columns)), shape=(smoother.n, smoother.n))
    stiffness = csr_matrix(diags_array(degree) - (weights + weights.T) / 2)
    if cloud.rows is not None:
        stiffness, mass = _at_given(cloud, stiffness, mass)
    to_given, size_given = (
        float(np.float64(scale) ** power) for power in (dimension - 2, dimension)
    )
    if not 1e-290 < min(to_given, size_given) <= max(to_given, size_given) < 1e290:
        raise InputError(
            f"areas or volumes of a cloud of size {scale:.1g} are beyond all numbers: change "
            "the unit"
        )
    return stiffness * to_given, csr_matrix(diags_array(mass * size_given))


def traced_matrices(cloud: Cloud, smoother: Smoother, origin: Origin) -> tuple[Tensor, Tensor]:
    """``L`` and ``M`` as torch CSR with derivatives with respect to the given points; neighbours
    are held fixed.
    """
    if cloud.duplicates:
        raise InputError(
            f"expected distinct points to differentiate, got {cloud.duplicates} that coincide "
            "with others"
        )
    stencil, graph = traced_stencil(origin.points, cloud, smoother), smoother.known_graph
    moving = cloud.frame(cloud.collect(origin.points.to(cloud.given)))
    graph = replace(
        graph, points=moving, distances=(moving[graph.indices] - moving[:, None]).norm(dim=2)
    )
    size = covered(replace(smoother, graph=graph, mass=stencil.mass)) / stencil.mass.sum()
    scale, dimension = cloud.frame.scale, max(1, round(smoother.dimension))
    weight, own = (
        stencil.weight * size * scale ** (dimension - 2),
        stencil.mass * size * scale**dimension,
    )
    edges = stencil.edges
    degree = edges.at(weight)
    if cloud.kept is not None and cloud.rows is not None:
        edges = Edges(cloud.kept[edges.head], cloud.kept[edges.tail], edges.n)
        degree, own = degree[cloud.rows], own[cloud.rows]
    count = torch.arange(edges.n + 1, device=own.device)
    mass = csr(count, count[:-1], own, (edges.n, edges.n))
    stiffness = symmetric_matrix(edges, -weight, degree)
    return stiffness.to(origin.device, origin.dtype), mass.to(origin.device, origin.dtype)


@validated
def gradient(
    points: Any,
    *,
    neighbours: Neighbours | None = None,
    dimension: float | None = None,
    device: str | torch.device | None = None,
) -> tuple[Array, tuple[Matrix, ...]]:
    """The gradient of functions on a cloud, in tangent frames of its points.

    Parameters
    ----------
    points
        As in `laplacian`; of a `Basis` it is the gradient of the graph and the weights that made
        it.
    neighbours, dimension, device
        As in `laplacian`.

    Returns
    -------
    frames
        ``(n, d, dim)``, orthonormal.
    parts
        ``(G_1, ..., G_dim)``, sparse ``(n, n)``, in ``length^-1``: ``G_a @ f`` is the component of
        the gradient of ``f`` along ``frames[:, :, a]``. As vectors in space the gradient is
        ``sum_a frames[:, :, a] * (G_a @ f)[:, None]``.

    Examples
    --------
    >>> grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), -1).reshape(-1, 2)
    >>> frames, parts = gradient(grid)
    >>> f = 3 * grid[:, 0] + 1
    >>> slope = sum(frames[:, :, a] * (g @ f)[:, None] for a, g in enumerate(parts))
    >>> print(bool(np.allclose(slope, [3, 0])))
    True
    """
    wanted = OperatorSettings(neighbours=neighbours, dimension=dimension)
    if isinstance(points, Basis):
        _refuse(wanted)
        if points.points is None:
            raise InputError("a gradient needs points: this basis has none")
    x, origin = check_points(points.points if isinstance(points, Basis) else points, 1, device)
    with limited_threads(x.device, len(x)):
        made = geometry_of(points) if isinstance(points, Basis) else prepare(x, wanted, 1)
        frames, parts = gradients(made.cloud, made.smoother)
    directions = (
        frames if origin.numpy else torch.from_numpy(frames).to(origin.dtype).to(origin.device)
    )
    return directions, tuple(as_given(part, origin) for part in parts)


def gradients(cloud: Cloud, smoother: Smoother) -> tuple[np.ndarray, list[csr_matrix]]:
    """Frames and gradient at all given points, float64 numpy and scipy CSR."""
    graph = smoother.known_graph
    if graph.metric != "euclidean":
        raise InputError("a gradient needs a smoother with a Euclidean graph")
    graph, dimension = (
        graph.without_loops(),
        max(1, min(round(smoother.dimension), graph.points.shape[1])),
    )
    if dimension < graph.points.shape[1]:
        tangent = graph.frames(dimension)
    else:
        tangent = torch.eye(dimension, dtype=graph.points.dtype).expand(graph.n, -1, -1)
    frames, points = tangent.double().cpu().numpy(), graph.points.double().cpu().numpy()
    rows, columns, weight = edge_weights(smoother)
    along = np.einsum("ed,edc->ec", points[columns] - points[rows], frames[rows])  # l_ij (e, dim)
    moments = np.zeros((graph.n, dimension, dimension))
    np.add.at(moments, rows, weight[:, None, None] * along[:, :, None] * along[:, None, :])
    solved = np.einsum(
        "ecb,eb->ec", np.linalg.pinv(moments, hermitian=True)[rows], weight[:, None] * along
    )
    parts = []
    for values in solved.T / cloud.frame.scale:
        part = csr_matrix((values, (rows, columns)), shape=(graph.n, graph.n))
        part.setdiag(-np.asarray(part.sum(1)).ravel())
        parts.append(part)
    if cloud.rows is None:
        return frames, parts
    to_points, means = _groups(cloud, len(frames))
    at_points = [csr_matrix(to_points @ part @ means) for part in parts]
    return frames[cloud.rows.cpu().numpy()], at_points


def edge_weights(smoother: Smoother) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and weights of the edges, each both ways, for a mass that sums to 1."""
    root = smoother.mass.double().sqrt().cpu().numpy()
    rows, columns, values = (part.cpu().numpy() for part in smoother.entries())
    off = rows != columns
    rows, columns = rows[off], columns[off]
    return (
        rows,
        columns,
        values[off].astype(np.float64) / float(smoother.step_time) * root[rows] * root[columns],
    )


def as_given(matrix: csr_matrix, origin: Origin) -> Matrix:
    """A scipy CSR matrix as it is, or as torch CSR where the caller gave a tensor."""
    if origin.numpy:
        return matrix
    given = (whole := from_scipy(matrix)).to(origin.device, origin.dtype)
    if not bool(torch.isfinite(given.values()).all()) or bool(
        ((given.values() == 0) & (whole.values() != 0)).all()
    ):
        raise InputError(
            f"this matrix is beyond the range of {origin.dtype}: give points in float64 or "
            "another unit"
        )
    return given
