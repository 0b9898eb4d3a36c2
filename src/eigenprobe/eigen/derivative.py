"""Derivatives of eigenpairs with respect to the weights of the edges and the mass.

    L v_k = lambda_k M v_k,  V^T M V = I       L = sum_e w_e (e_i - e_j)(e_i - e_j)^T,  M = diag(m)

    d lambda_k = v_k^T (dL - lambda_k dM) v_k
    d v_k      = sum_{j != k} v_j v_j^T (dL - lambda_k dM) v_k / (lambda_k - lambda_j)
                 - v_k v_k^T dM v_k / 2

The sum over the vectors that are not known is one solve, (lambda_k M - L) y = g - M V V^T g, by
conjugate gradients in the complement of V, where L - lambda_k M is positive.  Equal eigenvalues
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
from ..cloud.arranged import Placed
from ..errors import warn
from ..neighbors.graph import Edges
from ..neighbors.layout import Segments
from ..smoothers import Smoother
from ..smoothers.prepared import traced_stencil
from ..smoothers.smoother import conjugate_gradients
from .span import RitzPairs

EQUAL = 1e-5  # relative gap below which eigenvalues are one: a solver knows them to 1e-6
# share of the gradient that asks for a choice among equal eigenvalues, above which we warn
UNDEFINED = 1e-4
CHOICE = "equal eigenvalues leave the choice among their vectors free: the gradient is without it"
CUT = "the last eigenvalue has copies beyond the vectors asked for: the gradient is without them"


def with_derivatives(
    basis: Basis,
    rotation: RitzPairs,
    smoother: Smoother,
    cloud: Placed,
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
    """``(L - lambda_k M)^-1 g_k`` in the complement of ``V``, all columns at once, and whether they
    were found; ``g`` without its part in the span of ``M V``, where the operator is not
    positive.
    """
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import splu

    head, tail, w, m, lam, v, right = (
        part.detach().cpu()
        for part in (edges.head, edges.tail, weight, mass, values, vectors, gradient)
    )
    w, m, lam, v, right = (part.double() for part in (w, m, lam, v, right))
    off = coo_array((w.numpy(), (head.numpy(), tail.numpy())), shape=(edges.n, edges.n)).tocsr()
    off = off + off.T
    stiffness = diags_array(np.asarray(off.sum(1)).ravel()) - off
    solve = splu((stiffness + max(float(lam[-1]), 1e-12) * diags_array(m.numpy())).tocsc()).solve
    each = Segments((edges.n,) * len(lam), w.device)  # the columns, one after the other

    def nearly(u: Tensor) -> Tensor:
        u = u.view(len(lam), -1)
        u = torch.from_numpy(solve((u - (u @ v) @ weighted.mT).mT.numpy())).mT
        return (u - (u @ weighted) @ v.mT).flatten()

    def times(u: Tensor) -> Tensor:
        u = u.view(len(lam), -1)
        return (torch.from_numpy(stiffness @ u.mT.numpy()).mT - m * u * lam[:, None]).flatten()

    def least(u: Tensor) -> Tensor:  # a vector beyond V with the same eigenvalue has no curvature
        return EQUAL * lam[-1] * (m * u.view(len(lam), -1).square()).sum(1)

    weighted = m[:, None] * v
    scale = float((right * torch.from_numpy(solve(right.numpy()))).abs().sum(0).max())
    right = (right - weighted @ (v.mT @ right)).mT.flatten()
    rounding = np.finfo(float).eps ** 1.4  # of the squared residual
    enough = torch.full_like(lam, rounding * max(scale, np.finfo(float).tiny))
    # The preconditioned operator is near the identity beyond a few vectors: hundreds of steps only
    # where the next eigenvalue is near.
    found, left = conjugate_gradients(times, nearly, right, enough, 400, each, least)
    return found.view(len(lam), -1).mT.to(vectors), not bool((left > enough).any())
