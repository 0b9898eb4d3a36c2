"""Derivatives of eigenpairs with respect to the weights of the edges and the mass.

    L v_k = lambda_k M v_k,  V^T M V = I       L = sum_e w_e (e_i - e_j)(e_i - e_j)^T,  M = diag(m)

    d lambda_k = v_k^T (dL - lambda_k dM) v_k
    d v_k      = sum_{j != k} v_j v_j^T (dL - lambda_k dM) v_k / (lambda_k - lambda_j)
                 - v_k v_k^T dM v_k / 2

The sum over the vectors that are not known is one solve, (lambda_k M - L) y = g - M V V^T g, by a
factor of L - lambda_k M for each k, in the complement of V.  Equal eigenvalues
leave the choice of vectors among them free: only functions that do not depend on it have a
derivative; the sum over such a pair is finite, -v_j v_j^T dM v_k / 2. Where lambda_{K+1} =
lambda_K, K cuts such a group in two: nothing that depends on its vectors has a derivative. Arrays:
w (e,), m (n,), V and its gradient (n, K).
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import Cloud
from ..errors import warn
from ..neighbors.graph import Edges
from ..smoothers import Smoother
from ..smoothers.prepared import traced_stencil
from .span import RitzPairs

EQUAL = 1e-5  # relative gap below which eigenvalues are one: a solver knows them to 1e-6
# share of the gradient that asks for a choice among equal eigenvalues, above which we warn
UNDEFINED = 1e-4
PASSES = 4  # of a solve by a factor with a shift of a hundredth of `EQUAL`
CHOICE = "equal eigenvalues leave the choice among their vectors free: the gradient is without it"
CUT = "the last eigenvalue has copies beyond the vectors asked for: the gradient is without them"


def with_derivatives(
    basis: Basis,
    rotation: RitzPairs,
    smoother: Smoother,
    cloud: Cloud,
    points: Tensor,
    following: float,
) -> Basis:
    """The basis of a balanced smoother with derivatives with respect to the given ``points (N,
    d)``.

    ``following`` is the eigenvalue after the last one of the ``rotation``, infinite where there is
    none.
    """
    stencil = traced_stencil(points, cloud, smoother)
    weight, mass = stencil.weight / stencil.mass.sum(), stencil.mass / stencil.mass.sum()
    known = rotation.eigenvalues
    cut = abs(following - float(known[-1])) <= EQUAL * float(known.abs().max())
    values, vectors = MovingPairs.apply(weight, mass, stencil.edges, known, rotation.vectors, cut)
    mass, vectors = cloud.spread(mass, vectors)
    values = values / cloud.frame.scale**2
    return replace(basis, normalized=vectors * mass.sqrt()[:, None], mass=mass, eigenvalues=values)


class MovingPairs(torch.autograd.Function):
    """``(w, m, edges, lambda, V) -> (lambda, V)``: the same numbers, with derivatives by ``w`` and
    ``m``.

    ``cut`` says that the last eigenvalue has a copy that is not among them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        mass: Tensor,
        edges: Edges,
        values: Tensor,
        vectors: Tensor,
        cut: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(weight, mass, values, vectors)
        ctx.edges, ctx.cut = edges, cut
        ctx.set_materialize_grads(False)
        return values.clone(), vectors.clone()

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor, Tensor, None, None, None, None]:
        weight, mass, values, v = ctx.saved_tensors
        edges: Edges = ctx.edges
        if ctx.cut and any(_asks(each, _equal(values)[-1]) for each in given):
            warn(CUT)
        apart = v[edges.head] - v[edges.tail]  # (e, K)
        to_weight, to_mass = torch.zeros_like(weight), torch.zeros_like(mass)
        if given[0] is not None:
            to_weight, to_mass = apart.square() @ given[0], -(v.square() @ (given[0] * values))
            unlike = (given[0] - given[0][:, None]).abs() * _equal(values)
            if float(unlike.max()) > UNDEFINED * float(given[0].abs().max()):
                warn(CHOICE)
        if given[1] is not None:
            y, within, solved = _adjoint(weight, mass, edges, values, v, given[1])
            if not solved and not ctx.cut:
                warn(CUT)
            to_weight = to_weight + ((y[edges.head] - y[edges.tail]) * apart).sum(1)
            to_mass = to_mass - (y * v) @ values - (v @ within * v).sum(1) / 2
        return to_weight, to_mass, None, None, None, None


def _asks(gradient: Tensor | None, columns: Tensor) -> bool:
    """Whether a gradient ``(..., K)`` has a part in some ``columns (K,)`` bool."""
    if gradient is None:
        return False
    return float(gradient[..., columns].abs().max()) > UNDEFINED * float(gradient.abs().max())


def _equal(values: Tensor) -> Tensor:
    """Which eigenvalues (K, K) are one."""
    return (values - values[:, None]).abs() <= EQUAL * values.abs().max()


def _adjoint(
    weight: Tensor, mass: Tensor, edges: Edges, values: Tensor, v: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, bool]:
    """``y (n, K)``, the part ``(K, K)`` of ``V^T g`` between equal eigenvalues, and whether ``y``
    was found.
    """
    inner = v.T @ gradient
    gap, equal = values - values[:, None], _equal(values)
    single = inner - inner.T
    if float((single * equal).abs().max()) > UNDEFINED * float(inner.abs().max()):
        warn(CHOICE)
    y = v @ torch.where(equal, 0.0, inner / torch.where(equal, 1.0, gap))
    beyond, solved = _complement(weight, mass, edges, values, v, gradient)
    return y - beyond, torch.where(equal, (inner + inner.T) / 2, 0.0), solved


def _complement(
    weight: Tensor, mass: Tensor, edges: Edges, values: Tensor, vectors: Tensor, gradient: Tensor
) -> tuple[Tensor, bool]:
    """``(L - lambda_k M)^-1 g_k`` in the complement of ``V``, a factor for each column, and whether
    all were found, 0 for the others; ``g`` without its part in the span of ``M V``, where the
    matrix is singular.
    """
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import splu

    given = (edges.head, edges.tail, weight, mass, values, vectors, gradient)
    head, tail, w, m, lam, v, right = (part.detach().cpu().numpy() for part in given)
    w, m, lam, v, right = (part.astype(float) for part in (w, m, lam, v, right))
    equal = EQUAL * (lam[-1] or 1.0)
    off = coo_array((w, (head, tail)), shape=(edges.n, edges.n)).tocsr()
    off = off + off.T
    stiffness, inertia = diags_array(np.asarray(off.sum(1)).ravel()) - off, diags_array(m)
    weighted = m[:, None] * v
    right = right - weighted @ (v.T @ right)
    found = np.zeros_like(right)
    for x, r, value in zip(found.T, right.T, lam, strict=True):
        # Beside the eigenvalue, where the matrix is regular; what that changes is solved for again.
        beside = value + equal / 100
        solve = splu((stiffness - beside * inertia).tocsc()).solve
        for _ in range(PASSES):
            left = r - stiffness @ x + value * m * x
            y = solve(left - weighted @ (v.T @ left))
            x += y - v @ (weighted.T @ y)
    # A vector beyond V with the same eigenvalue makes the solution as large as rounding lets it.
    size, asked = (m @ found**2) ** 0.5, ((1 / m) @ right**2) ** 0.5
    sound = equal * size <= asked
    return torch.from_numpy(found * sound).to(vectors), bool(sound.all())
