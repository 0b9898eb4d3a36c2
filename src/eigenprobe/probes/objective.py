"""Progressive reconstruction errors and losses.

    e_k(f) = |f - P_k f|^2,   P_k f = Q_k c,   Q_k^T M Q_k c = Q_k^T M f        (k = 1..K)

All K prefixes come from one Cholesky factor, because the Gram matrix of a prefix is a leading block
of the whole: with G = Q^T M Q = L L^T, W = Q L^-T (nested, M-orthonormal), a = W^T M F, b = W^T F
and H = W^T W,

    e_k = |f|^2 - 2 cumsum(a*b)_k + cumsum(2 a * (tril(H,-1) a) + a^2 * diag(H))_k

and, in expectation over f ~ (0, C),  E[a_i b_i] = (W^T C M W)_ii  and  E[a a^T] = (M W)^T C (M W):
one application of C to the K columns of M W.  With M = I the errors are  |f|^2 - cumsum(a^2)  and
tr C - cumsum_i w_i^T C w_i. In the M-norm, which [P]'s theorems ask for and its training avoids,
|f - P_k f|_M^2 = |f|_M^2 - cumsum(a^2)_k.

`Q` need not be orthonormal: the errors depend only on the nested spans, so raw network features
`(b, n, K)` may be passed and the QR step is the Cholesky factor above.  Shapes: Q (..., n, K), F
(..., n, m), mass (..., n). The K x K algebra is done in float64 whatever the dtype of the features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ..eigen import orthonormalise
from ..errors import InputError
from ..host.validation import validated

CovarianceApply = Callable[[Tensor], Tensor]
Norm = Literal["euclidean", "mass"]
Projection = Literal["euclidean", "hybrid", "mass"]


def nested_basis(features: Tensor, mass: Tensor | None = None) -> Tensor:
    """``W (..., n, K)`` float64, ``W^T M W = I``, whose prefixes span those of the features; NaN
    for dependent ones: a check would stop a GPU at every training step."""
    return orthonormalise(features, mass, check=False, passes=1)[0]


def prefix_errors(
    basis: Tensor, probes: Tensor, mass: Tensor | None = None, *, norm: Norm = "euclidean"
) -> Tensor:
    """Squared errors ``(..., K, m)`` of the M-orthogonal projections on every prefix of the
    columns.

    Equivalent to K separate least-squares solves; costs ``O(nKm + K^2 m)`` time and ``O((n + K)
    m)`` memory. ``mass=None`` is the Euclidean projection; ``norm`` is that of the error,
    ``"mass"`` the M-norm.
    """
    if basis.ndim < 2 or probes.ndim < 2 or basis.shape[-2] != probes.shape[-2]:
        raise InputError(
            "expected a basis (..., n, K) and probes (..., n, m) with one n, "
            f"got {tuple(basis.shape)} and {tuple(probes.shape)}"
        )
    if mass is not None and mass.shape[-1] != basis.shape[-2]:
        raise InputError(f"expected a mass of length n={basis.shape[-2]}, got {tuple(mass.shape)}")
    nested = nested_basis(basis, mass).to(probes.dtype)
    total = _norms(probes)
    b = (nested.mT @ probes).double()  # (..., K, m)
    if mass is None:
        return total - b.square().cumsum(-2)
    a = ((nested * mass.to(probes.dtype).unsqueeze(-1)).mT @ probes).double()
    if norm == "mass":
        return (mass.unsqueeze(-1) * probes.square()).sum(
            -2, keepdim=True
        ).double() - a.square().cumsum(-2)
    overlap = nested.double()
    overlap = overlap.mT @ overlap  # (..., K, K)
    diagonal = overlap.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    return total + (2 * a * (overlap.tril(-1) @ a - b) + a.square() * diagonal).cumsum(-2)


def _norms(probes: Tensor) -> Tensor:
    # A float64 copy of (n, m) float32 probes would double the memory of the whole loss.
    return torch.linalg.vector_norm(probes, dim=-2, keepdim=True).double().square()


def expected_errors(
    basis: Tensor, covariance: CovarianceApply, trace: Tensor | float, mass: Tensor | None = None
) -> Tensor:
    """Mean of `prefix_errors` over infinitely many probes of covariance ``C``: ``(..., K)``, no
    Monte-Carlo noise.

    ``covariance(x)`` returns ``C x`` for ``x (..., n, K)``; ``trace`` is ``tr C``.
    """
    nested = nested_basis(basis, mass)
    left = nested if mass is None else nested * mass.double().unsqueeze(-1)  # M W
    smoothed = covariance(left.to(basis.dtype)).double()  # C M W
    total = torch.as_tensor(trace, dtype=torch.float64, device=basis.device).unsqueeze(-1)
    if mass is None:
        return total - (left * smoothed).sum(-2).cumsum(-1)
    second = left.mT @ smoothed  # E[a a^T]
    overlap = nested.mT @ nested
    cross = (nested * smoothed).sum(-2)  # E[a_i b_i]
    pairs = 2 * (overlap.tril(-1) * second).sum(-1)
    square = second.diagonal(dim1=-2, dim2=-1) * overlap.diagonal(dim1=-2, dim2=-1)
    return total + (pairs + square - 2 * cross).cumsum(-1)


@validated
@dataclass(frozen=True)
class Objective:
    """How prefix errors become one number.

    Parameters
    ----------
    kind
        ``"expected"`` (from a covariance) or ``"sampled"`` (from drawn probes, the paper's loss).
    projection
        ``"euclidean"``; ``"hybrid"``: M-projection with ``M = diag(q_1^2)`` and 2-norm error (the
        paper's); or ``"mass"``: M-projection and M-norm error, sampled probes only (unstable: the
        mass may leave the points).
    relative
        Divide by the energy ``tr C`` (or ``mean |f|^2``) of each cloud, so that clouds and scales
        are comparable.
    probe
        ``"mean"`` over the probes, or ``"worst"``: the largest error of each prefix, the min-max
        form of the theorem.
    """

    kind: Literal["expected", "sampled"] = "expected"
    projection: Projection = "euclidean"
    relative: bool = False
    probe: Literal["mean", "worst"] = "mean"

    def __post_init__(self) -> None:
        if self.kind == "expected" and (self.projection == "mass" or self.probe == "worst"):
            raise InputError(
                "the M-norm and the worst probe need drawn probes: kind 'sampled', got 'expected'"
            )

    def errors(
        self,
        features: Tensor,
        *,
        covariance: CovarianceApply | None = None,
        trace: Tensor | float | None = None,
        probes: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean (or worst) prefix errors ``(..., K)`` and the probes' energy ``(...)``, both
        float64.
        """
        mass = None if self.projection == "euclidean" else first_mass(features)
        if self.kind == "sampled":
            if probes is None:
                raise InputError("a sampled objective needs probes of shape (..., n, m), got None")
            weighted = self.projection == "mass"
            errors = prefix_errors(features, probes, mass, norm="mass" if weighted else "euclidean")
            energy = _norms(probes).squeeze(-2).mean(-1) / (features.shape[-2] if weighted else 1)
            return errors.amax(-1) if self.probe == "worst" else errors.mean(-1), energy
        if covariance is None or trace is None:
            raise InputError("an expected objective needs a covariance and its trace, got None")
        errors = expected_errors(features, covariance, trace, mass)
        energy = torch.as_tensor(trace, dtype=torch.float64, device=features.device)
        return errors, energy.expand(errors.shape[:-1])

    def reduce(self, errors: Tensor, energy: Tensor) -> Tensor:
        """One loss ``(...)`` per cloud, the mean over prefixes, from errors ``(..., K)`` and energy
        ``(...)``.
        """
        loss = errors.mean(-1)
        return loss / energy if self.relative else loss

    def __call__(self, features: Tensor, **given: Any) -> Tensor:
        """Loss averaged over the batch, a float64 scalar; ``given`` are arguments of `errors`."""
        return self.reduce(*self.errors(features, **given)).mean()


def first_mass(features: Tensor) -> Tensor:
    """``M = q_1^2`` of the normalised first column ``(..., n)``; sums to 1."""
    first = features[..., 0].double().square()
    return first / first.sum(-1, keepdim=True)
