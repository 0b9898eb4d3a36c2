"""Other operators from the same smoother: a potential, and functions that vanish at a boundary.

    potential   H = (I - A) / tau + diag(v - min v)     A' = I - tau' H,   lambda = min v + (1 - mu) / tau'
    dirichlet   rows and columns of the points where functions vanish are decoupled, their own gap is 1, the largest

The mass stays that of the points.  The constant is no longer an eigenvector, which ``lowest`` says (the number that the
eigenvalues are counted from; None for a plain smoother).  Arrays: v and the mask have one entry per point, (n,).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..graph.arranged import Arranged
from .cells import at_boundary
from .smoother import Smoother, csr


def alter(smoother: Smoother, cloud: Arranged, k: int, potential: Any = None, boundary: Any = None) -> Smoother:
    """The smoother of ``L + V`` with a ``potential (N,)``, for ``k`` functions that vanish at a ``boundary``.

    Both are given at all points of the caller and in the caller's units (``length^-2``); copies of a point share the
    mean potential, and vanish if one of them does. ``boundary`` is ``"dirichlet"`` or a bool mask ``(N,)``.
    """
    if potential is None and boundary is None:
        return smoother
    if smoother.mass is None:
        raise InputError("a potential or a boundary needs a symmetric smoother, got kind 'row': use 'adaptive'")
    if potential is not None:
        v = numbers(potential, "potential", len(cloud.given)).to(smoother.device)
        smoother = with_potential(smoother, cloud.collect(v) * cloud.frame.scale**2)
    if boundary is not None:
        mask = _mask(smoother, cloud, boundary)
        if (inside := int((~mask).sum())) < k:
            raise InputError(f"k={k} vectors need at least {k} points off the boundary, got {inside} of {len(mask)}")
        smoother = vanishing(smoother, mask)
    return smoother


def with_potential(smoother: Smoother, potential: Tensor) -> Smoother:
    """The smoother of ``L + diag(potential)``, in the units of the smoother."""
    lowest = float(potential.min())
    extra, leaving = potential - lowest, _leaving(smoother) / float(smoother.step_time)
    # Gershgorin, as for the plain smoother: no eigenvalue is above twice the rate of leaving plus the potential.
    step = 1 / float((2 * leaving + extra).max())
    kept = step / float(smoother.step_time)
    return replace(_rebuilt(smoother, kept, step * (leaving + extra)), step_time=step, lowest=lowest)


def vanishing(smoother: Smoother, mask: Tensor) -> Smoother:
    """The smoother of functions that are 0 where the mask says."""
    free = (~mask).to(smoother.dtype)
    rows, columns, _ = smoother.entries()
    leaving = torch.where(mask, 1.0, _leaving(smoother))
    return replace(_rebuilt(smoother, free[rows] * free[columns], leaving), lowest=smoother.lowest or 0.0)


def _rebuilt(smoother: Smoother, factor: Tensor | float, leaving: Tensor) -> Smoother:
    """The same pattern with entries off the diagonal multiplied by a factor, and ``1 - leaving`` on it."""
    rows, columns, values = smoother.entries()
    values = torch.where(rows == columns, (1 - leaving)[rows], values * factor)
    matrix = csr(smoother.matrix.crow_indices(), columns, values, (smoother.n, smoother.n))
    return replace(smoother, matrix=matrix, leaving=leaving)


def _leaving(smoother: Smoother) -> Tensor:
    if smoother.leaving is not None:
        return smoother.leaving
    rows, columns, values = smoother.entries()
    loop = rows == columns
    return torch.ones(smoother.n, dtype=values.dtype, device=values.device).index_add(0, rows[loop], -values[loop])


def _mask(smoother: Smoother, cloud: Arranged, boundary: Any) -> Tensor:
    """Where functions vanish, per kept point ``(n,)``."""
    if isinstance(boundary, str):
        if boundary != "dirichlet":
            raise InputError(f"boundary must be 'dirichlet' or a bool mask, got {boundary!r}")
        mask = at_boundary(smoother)
        if not bool(mask.any()):
            raise InputError("boundary='dirichlet' found no boundary: the cloud is closed; give a bool mask instead")
    else:
        given = torch.as_tensor(boundary).to(smoother.device)
        if given.dtype != torch.bool or tuple(given.shape) != (len(cloud.given),):
            found = f"{given.dtype} of shape {tuple(given.shape)}"
            raise InputError(f"expected a boundary mask of bools ({len(cloud.given)},), got {found}")
        mask = cloud.collect(given.double()) > 0
    if bool(mask.all()):
        raise InputError(f"the boundary covers all {smoother.n} points: nothing is left inside")
    return mask


def numbers(values: Any, name: str, n: int) -> Tensor:
    """A finite float64 tensor with ``n`` rows, ``(n,)`` for a potential and ``(n, m)`` for probes."""
    array = values.detach() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if array.is_complex() or array.dtype == torch.bool:
        raise InputError(f"expected a {name} of real numbers, got {array.dtype}")
    shape, wanted = tuple(array.shape), "(n,)" if name == "potential" else "(n, m)"
    if array.ndim != wanted.count(",") + wanted.count("m") or shape[0] != n:
        raise InputError(f"expected {name} of shape {wanted} with n={n}, got {shape}")
    if not bool(torch.isfinite(array).all()):
        raise InputError(f"expected finite {name}, got NaN or infinity")
    return array.double()
