"""Other operators from the same smoother: another metric, another measure, a potential, a boundary.

    anisotropic      lengths along a tangent field f count 1 + |f| times (`balanced`, `cells`)
    weighted         div(rho grad f) / rho:   W <- W sqrt(rho_i rho_j),   M <- M rho
    diffusion maps   rho = q^(2 - 2 alpha), q = 1 / (n m_i) the density of the samples
                     [Coifman, Lafon 2006]
    scale-invariant  metric |K| g, K the Gaussian curvature:   W stays,   M <- M |K|
                     [Aflalo et al. 2013]
    potential        H = (I - A) / tau + diag(v - min v)
                     A' = I - tau' H,   lambda = min v + (1 - mu) / tau'
    dirichlet        rows and columns of points where functions vanish are decoupled; their own
                     gap is 1, the largest
    curvature        z(u) = a.u + u^T H u / 2 + cubic     heights over the tangent plane (n, k, 2)
                     S = G^-1 H / sqrt(1 + |a|^2)         shape operator, G = I + a a^T
                     K = det H / (1 + |a|^2)^2

After a potential or a boundary the constant is no longer an eigenvector, which ``lowest`` says (the
number that the eigenvalues are counted from; None for a plain smoother).  Arrays: v, rho and the
mask have one entry per point, (n,).
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..cloud.cloud import Cloud, CloudGraph
from ..errors import InputError
from ..host.validation import as_array
from ..neighbors.graph import Graph
from ..neighbors.layout import principal_axes
from .cells import at_boundary
from .smoother import Smoother, csr
from .stencil import principal

# of the Gaussian weight, in distances to the last neighbour: a bias of half a per cent at 30
# neighbours
WIDTH = 0.55
RIDGE = 1e-9  # of the normal equations: collinear neighbours


class Curvature(NamedTuple):
    """Principal curvatures ``values (n, 2)``, the larger magnitude first, and the ``direction (n,
    3)`` of the first.
    """

    values: Tensor
    direction: Tensor

    @property
    def gaussian(self) -> Tensor:
        return self.values[:, 0] * self.values[:, 1]


def curvature(graph: Graph, dimension: float) -> Curvature:
    """The curvature of the surface that a graph in three dimensions samples, in one over the units
    of its points.
    """
    graph = graph.without_loops()
    if graph.points.shape[1] != 3 or round(dimension) != 2 or graph.metric != "euclidean":
        shape = f"dimension {dimension:.3g} in {graph.points.shape[1]}"
        raise InputError(
            f"curvature is that of a surface in three dimensions, got points of {shape}"
        )
    offsets = graph.points[graph.indices] - graph.points[:, None]
    scale = graph.distances[:, -1, None].clamp_min(torch.finfo(offsets.dtype).tiny)
    weight = torch.exp(-(graph.distances / (WIDTH * scale)).square() / 2)[..., None]  # (n, k, 1)
    offsets = offsets / scale[..., None]
    frames = principal(offsets.mT @ (weight * offsets), 3).flip(2)  # two tangents, then the normal
    # Directions get the length of the chord: on a sphere z = |chord|^2 / 2r exactly, and a
    # quadratic has no bias.
    x, y, z = (offsets @ frames).unbind(2)
    longer = (1 + z.square() / (x * x + y * y).clamp_min(1e-12)).sqrt()
    x, y = x * longer, y * longer
    terms = [x, y, x * x / 2, x * y, y * y / 2, x**3, x * x * y, x * y * y, y**3]
    design = torch.stack(terms, 2)
    normal = design.mT @ (weight * design)
    normal = normal + RIDGE * torch.eye(len(terms), dtype=x.dtype, device=x.device)
    a, b, p, q, r = torch.linalg.solve(normal, design.mT @ (weight * z[..., None]))[
        :, :5, 0
    ].unbind(1)
    slope, hessian = torch.stack([a, b], 1), torch.stack([p, q, q, r], 1).reshape(-1, 2, 2)
    rise = 1 + slope.square().sum(1)
    # G^-1/2 H G^-1/2 is symmetric with the eigenvalues of G^-1 H;  G^-1/2 = I - a a^T c.
    shrink = (1 - rise.rsqrt()) / (rise - 1).clamp_min(1e-12)
    root = (
        torch.eye(2, dtype=x.dtype, device=x.device)
        - shrink[:, None, None] * slope[:, :, None] * slope[:, None]
    )
    values, vectors = principal_axes(root @ hessian @ root / rise.sqrt()[:, None, None])
    order = values.abs().argsort(1, descending=True)
    # in the plane's coordinates
    flat = (root @ vectors).gather(2, order[:, None, :1].expand(-1, 2, 1))[..., 0]
    lifted = torch.cat([flat, (slope * flat).sum(1, keepdim=True)], 1)
    direction = (frames @ lifted[..., None])[..., 0]
    return Curvature(
        values.gather(1, order) / scale, direction / direction.norm(dim=1, keepdim=True)
    )


FLAT = 1e-6  # mean |K| times the squared size of a cloud that is flat: rounding, or a cylinder
# |K| of flat places, of the mean |K|: where the mass vanished the spectrum would have no bound
FLATTEST = 0.02


def neighbours_along(anisotropy: Any, usual: int) -> int:
    """How many are needed: an ellipse among them that is as large as the usual disk, up to a factor
    of 4.
    """
    given = _tensor(anisotropy)
    largest = (
        float(given.double().norm(dim=-1).max())
        if given.ndim and given.numel()
        else float(given.sum())
    )
    return round(usual * min(1 + max(largest, 0.0), 4.0)) if largest == largest else usual


def anisotropic_field(anisotropy: Any, cloud: CloudGraph, dimension: float) -> Tensor:
    """The field ``(n, d)`` along which lengths count more, at the kept points: of a field ``(N,
    d)`` at the points of the caller, or of a strength along the direction of strongest
    curvature.
    """
    if _tensor(anisotropy).ndim:
        given = numbers(anisotropy, "anisotropy", len(cloud.given))
        if given.shape[1] != cloud.given.shape[1]:
            wanted, found = tuple(cloud.given.shape), tuple(given.shape)
            raise InputError(f"expected an anisotropy of shape {wanted}, got {found}")
        return cloud.collect(given.to(cloud.graph.device))
    strength = float(anisotropy)
    if not 0 < strength < np.inf:
        raise InputError(f"expected an anisotropy (a strength) above 0, got {strength:g}")
    bent = curvature(cloud.graph, dimension)
    large, small = bent.values.square().unbind(1)
    # Where both curvatures are equal no direction is stronger: the strength fades there.
    fading = (large - small) / (large + small).clamp_min(torch.finfo(large.dtype).tiny)
    return strength * fading[:, None] * bent.direction


def alter(
    smoother: Smoother,
    cloud: Cloud,
    k: int,
    *,
    potential: Any = None,
    boundary: Any = None,
    measure: Any = None,
    scale_invariant: bool = False,
) -> Smoother:
    """The smoother of another operator, for ``k`` functions: a potential ``(N,)`` in length^-2, a
    boundary ("dirichlet" or a bool mask), a measure (weights ``(N,)``, or alpha of diffusion maps),
    all at the points and in the units of the caller.

    Copies of a point share the mean weight and potential, and vanish if one of them does.
    """
    if scale_invariant:
        bent = curvature(smoother.known_graph, smoother.dimension).gaussian.abs()
        if not float(bent.mean()) > FLAT:
            raise InputError("a scale-invariant metric needs a curved surface, got a flat one")
        bent = bent.clamp_min(FLATTEST * float(bent.mean())) / cloud.frame.scale**2
        smoother = _remeasured(smoother, torch.ones_like(bent), bent)
    if measure is not None:
        rho = _weights(smoother, cloud, measure)
        smoother = _remeasured(smoother, rho, rho)
    if potential is not None:
        v = numbers(potential, "potential", len(cloud.given)).to(smoother.device)
        smoother = with_potential(smoother, cloud.collect(v) * cloud.frame.scale**2)
    if boundary is not None:
        mask = _mask(smoother, cloud, boundary)
        if (inside := int((~mask).sum())) < k:
            raise InputError(
                f"k={k} vectors need at least {k} points off the boundary, got {inside} of "
                f"{len(mask)}"
            )
        smoother = vanishing(smoother, mask)
    return smoother


def _weights(smoother: Smoother, cloud: Cloud, measure: Any) -> Tensor:
    """The weight of every kept point ``(n,)`` in the measure: as given, or a power of the density
    of the samples.
    """
    if _tensor(measure).ndim:
        weights = cloud.collect(numbers(measure, "measure", len(cloud.given)).to(smoother.device))
        if not float(weights.min()) > 0:
            raise InputError(
                f"expected a measure of weights above 0, got {float(weights.min()):.3g}"
            )
        return weights
    alpha = float(measure)
    if not -np.inf < alpha < np.inf:
        raise InputError(
            f"expected alpha, a finite number, or weights (n,) as measure, got {alpha}"
        )
    size = cloud.share(smoother.mass)
    # the mass of random samples varies by half: a mean over the neighbours
    if smoother.graph is not None:
        size = (size + size[smoother.graph.indices].sum(1)) / (1 + smoother.graph.k)
    rarity = size.log()
    return torch.exp(2 * (alpha - 1) * (rarity - rarity.mean()))


def _remeasured(smoother: Smoother, conductance: Tensor, density: Tensor) -> Smoother:
    """Weights times ``sqrt(c_i c_j)``, the mass times a density; the rate stays at most one
    half.
    """
    rows, columns, values = smoother.entries()
    time = float(smoother.step_time)
    half, own, root = conductance.sqrt(), smoother.mass.sqrt(), (conductance / density).sqrt()
    off = torch.where(rows == columns, 0.0, values) * (half * own)[columns] / time
    # Row sums of the new weights over the new mass; with c = rho the entries themselves stay
    # (Witten's Laplacian).
    rate = torch.zeros_like(own).index_add(0, rows, off) * half / (density * own)
    step = 1 / (2 * float(rate.max()))
    mass = smoother.mass * density
    known = density if smoother.density is None else density * smoother.density
    altered = _rebuilt(smoother, step / time * root[rows] * root[columns], step * rate)
    return replace(altered, mass=mass / mass.sum(), step_time=step, density=known)


def with_potential(smoother: Smoother, potential: Tensor) -> Smoother:
    """The smoother of ``L + diag(potential)``, in the units of the smoother."""
    lowest = float(potential.min())
    extra, degree = potential - lowest, smoother.known_degree / float(smoother.step_time)
    # Gershgorin, as for the plain smoother: no eigenvalue is above twice the degree plus
    # the potential.
    step = 1 / float((2 * degree + extra).max())
    kept = step / float(smoother.step_time)
    return replace(_rebuilt(smoother, kept, step * (degree + extra)), step_time=step, lowest=lowest)


def vanishing(smoother: Smoother, mask: Tensor) -> Smoother:
    """The smoother of functions that are 0 where the mask says."""
    free = (~mask).to(smoother.dtype)
    rows, columns, _ = smoother.entries()
    degree = torch.where(mask, 1.0, smoother.known_degree)
    lowest = smoother.lowest or 0.0
    return replace(
        _rebuilt(smoother, free[rows] * free[columns], degree), lowest=lowest, fixed=mask
    )


def _rebuilt(smoother: Smoother, factor: Tensor | float, degree: Tensor) -> Smoother:
    """The same pattern with entries off the diagonal multiplied by a factor, and ``1 - degree`` on
    it.
    """
    rows, columns, values = smoother.entries()
    values = torch.where(rows == columns, (1 - degree)[rows], values * factor)
    matrix = csr(smoother.matrix.crow_indices(), columns, values, (smoother.n, smoother.n))
    return replace(smoother, matrix=matrix, degree=degree, edges=None)


def _mask(smoother: Smoother, cloud: Cloud, boundary: Any) -> Tensor:
    """Where functions vanish, per kept point ``(n,)``."""
    if isinstance(boundary, str):
        if boundary != "dirichlet":
            raise InputError(f"boundary must be 'dirichlet' or a bool mask, got {boundary!r}")
        mask = at_boundary(smoother)
        if not bool(mask.any()):
            raise InputError(
                "boundary='dirichlet' found no boundary: the cloud is closed; give a bool "
                "mask instead"
            )
    else:
        given = _tensor(boundary).to(smoother.device)
        if given.dtype != torch.bool or tuple(given.shape) != (len(cloud.given),):
            found = f"{given.dtype} of shape {tuple(given.shape)}"
            raise InputError(
                f"expected a boundary mask of bools ({len(cloud.given)},), got {found}"
            )
        mask = cloud.collect(given.double()) > 0
    if bool(mask.all()):
        raise InputError(f"the boundary covers all {smoother.n} points: nothing is left inside")
    return mask


def numbers(values: Any, name: str, n: int) -> Tensor:
    """A finite float64 tensor with ``n`` rows: ``(n,)`` for a potential or a measure, ``(n, m)``
    for the others.
    """
    array = _tensor(values)
    if array.is_complex() or array.dtype == torch.bool:
        raise InputError(f"expected a {name} of real numbers, got {array.dtype}")
    shape, wanted = tuple(array.shape), "(n,)" if name in ("potential", "measure") else "(n, m)"
    if array.ndim != wanted.count(",") + wanted.count("m") or shape[0] != n:
        raise InputError(f"expected {name} of shape {wanted} with n={n}, got {shape}")
    if not bool(torch.isfinite(array).all()):
        raise InputError(f"expected finite {name}, got NaN or infinity")
    return array.double()


def _tensor(values: Any) -> Tensor:
    return values.detach() if isinstance(values, Tensor) else torch.as_tensor(as_array(values))
