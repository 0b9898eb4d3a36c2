"""From a span to a basis: the one place that orthonormalises, rotates, orders and signs.

    columns (n, p) -> Q (n, p) orthonormal -> H = Q^T (I - A) Q = U diag(1 - mu) U^T -> Q U (n, K)
    lambda = (1 - mu) / step_time,  ascending, the constant first; third moments positive
    `Basis`: copies share value and mass (N, K), the units are those of the points as given

The nested loss is least at these vectors within the span (Rayleigh-Ritz).  ``sqrt(mass)`` is a
known eigenvector: it is the first column, and the rotation leaves it alone, so that repeated zeros
of separate parts cannot mix it with others. Stacked clouds of one size: columns (b, n, p), and
every cloud has its own rotation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..basis import Basis, Extension
from ..cloud.cloud import Cloud
from ..errors import RankError, warn
from ..host.files import Facts
from ..neighbors.search import query
from ..smoothers import Smoother
from ..smoothers.prepared import OperatorSource, Prepared
from .problem import chebyshev

NEAR = 1e-3  # sine of an angle below which a direction says nothing new


def orthonormalise(
    x: Tensor,
    mass: Tensor | None = None,
    *,
    check: bool = True,
    passes: int = 2,
    ridge: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """``x = Q R`` with ``Q^T M Q = I`` and upper triangular ``R``, ``diag R > 0``; batched and
    differentiable, float64.

    Cholesky-QR, done ``passes`` times (in float32 the Gram matrix is not positive definite at K =
    50 in practice). Dependent columns are a `RankError`; with
    ``check=False``, which costs no device synchronisation, they give NaN. ``ridge`` keeps nearly
    dependent unit columns small instead of noisy.

    >>> q, r = orthonormalise(torch.eye(3)[:, :2] * 2)
    >>> r.diagonal().tolist()
    [2.0, 2.0]
    """
    n, k = x.shape[-2:]
    if n < k:
        raise RankError(f"{k} independent columns need at least {k} rows, got {n}")
    q, r = _cholesky(x, mass, ridge)
    for _ in range(passes - 1):
        q, again = _cholesky(q, mass, ridge)
        r = again @ r
    if check:
        with torch.no_grad():
            # R's columns have the norms of x's columns.
            relative = r.diagonal(dim1=-2, dim2=-1) / r.norm(dim=-2)
            if not float(relative.min()) > 4 * torch.finfo(x.dtype).eps:  # NaN is not
                raise RankError(f"expected {k} independent columns, got a numerical rank below {k}")
    return q, r


def _cholesky(x: Tensor, mass: Tensor | None, ridge: float) -> tuple[Tensor, Tensor]:
    """One pass in float64; NaN where the columns depend on each other but for their rounding."""
    wide = x.double()
    # Unit columns first: Cholesky's breakdown depends on the correlation of the columns, not on
    # their scale.
    squares = wide.detach().square().sum(-2, keepdim=True)
    scale = squares.clamp_min(torch.finfo(wide.dtype).tiny).rsqrt()
    wide = wide * scale
    gram = wide.mT @ (wide if mass is None else wide * mass.double().unsqueeze(-1))
    gram = 0.5 * (gram + gram.mT)
    if ridge:
        gram = gram + ridge * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    factor, status = torch.linalg.cholesky_ex(gram)
    norms = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    smallest = (factor.diagonal(dim1=-2, dim2=-1) / norms).amin(-1)
    sound = (status == 0) & (smallest > 8 * torch.finfo(x.dtype).eps)
    factor = torch.where(sound[..., None, None], factor, torch.full_like(factor, torch.nan))
    q = torch.linalg.solve_triangular(factor, wide.mT, upper=False).mT
    return q, (factor / scale.mT).mT


def widen(first: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal columns `(..., n, K + m)`: those of `first` in order, then what `more` adds to
    their span; and which columns there are.

    Directions of `more` within `NEAR` of the span of `first` are left out (their columns are 0).
    Float64, batched, without a pivot on the host.
    """
    q, _ = orthonormalise(first, check=False)
    more = more / more.norm(dim=-2, keepdim=True).clamp_min(1e-30)
    rest = more - q @ (q.mT @ more)
    values, turn = torch.linalg.eigh(rest.mT @ rest)
    kept = values > NEAR**2
    added = rest @ (turn * torch.where(kept, values, torch.inf).rsqrt()[..., None, :])
    added = added - q @ (q.mT @ added)  # once more: the first pass leaves rounding, magnified
    present = torch.cat([torch.ones_like(q[..., 0, :], dtype=torch.bool), kept], -1)
    return torch.cat([q, added], -1), present


def small_ritz(
    small: Tensor, gram: Tensor | None = None, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Pairs of ``small u = g gram u``, ascending: ``g (..., r)`` and ``u (..., p, r)``, ``r <= p``
    directions that are sound in a block of the precision ``dtype``."""
    small = (small + small.mT) / 2
    if gram is None:
        return torch.linalg.eigh(small)
    unit = gram.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(torch.float64).tiny).rsqrt()
    gram = unit[:, None] * (gram + gram.mT) / 2 * unit
    factor, status = torch.linalg.cholesky_ex(gram)
    if bool((status == 0) & (factor.diagonal().min() > 0.01)):  # nearly always, and cheaper
        white = torch.linalg.solve_triangular(factor, torch.diag(unit), upper=False).mT
    else:
        values, vectors = torch.linalg.eigh(gram)
        # Rounding of the columns, of which there are about a hundred, or of their products.
        least = max(100 * torch.finfo(dtype).eps, torch.finfo(torch.float64).eps ** 0.5)
        sound = values > least * values[-1]
        white = unit[:, None] * vectors[:, sound] * values[sound].rsqrt()
    g, turn = small_ritz(white.mT @ small @ white)
    return g, white @ turn


@torch.no_grad()
def ritz(q: Tensor, smoother: Smoother, *, known: int = 0) -> tuple[Tensor, Tensor]:
    """The Ritz problem of orthonormal ``q (..., n, p)``: gaps ``1 - mu (..., p)`` ascending,
    rotation ``(..., p, p)``.

    The first ``known`` columns are eigenvectors already and stay as they are. The small matrix is
    that of ``I - A``, assembled from ``q - A q`` in float64, so that values near 1 keep their
    distance to it. Columns that are zero have the gap 1.
    """
    wide = q.double()
    image = smoother.apply_symmetric(q.to(smoother.dtype)).double().neg_().add_(wide)
    small = wide.mT @ image
    diagonal = small.diagonal(dim1=-2, dim2=-1)
    diagonal.add_((wide.square().sum(-2) < 0.5).double())
    gaps, turn = small_ritz(small[..., known:, known:])
    rotation = torch.eye(q.shape[-1], dtype=turn.dtype, device=turn.device).repeat(
        *q.shape[:-2], 1, 1
    )
    rotation[..., known:, known:] = turn
    return torch.cat([diagonal[..., :known], gaps], -1), rotation


@torch.no_grad()
def sweep(q: Tensor, smoother: Smoother, steps: int = 4) -> Tensor:
    """A better span for orthonormal ``q (..., n, K)`` by ``steps`` smoothing steps:
    ``orth(T_steps(B) q)``.

    ``B`` is A shifted and scaled so that [lowest, mu_K] is [-1, 1]. T_s costs the same steps as the
    power A^s, damps everything below mu_K just as well, and raises the wanted vectors as about s^2
    plain steps would.
    """
    q = q.to(smoother.dtype)
    lowest = -1.0 if smoother.kind == "symmetric" else 0.0
    lowest_ritz = (q * smoother.apply(q)).sum(-2).amin(-1)[..., None, None]  # one per cloud
    edge = lowest_ritz.clamp_min(lowest + 0.1)
    return orthonormalise(chebyshev(smoother.apply, q, steps, lowest, edge), check=False)[0]


def canonical_signs(vectors: Tensor, weights: Tensor | None = None) -> Tensor:
    """``+1`` or ``-1`` for every column: the third moment becomes positive, or, where it vanishes
    (a symmetric function), the entry of largest magnitude does. Depends on neither the order nor
    the pose of the points.
    """
    cubes = vectors * vectors * vectors  # a power is ten times slower
    cubes = cubes if weights is None else cubes * weights[..., None]
    cube, size = cubes.sum(-2), cubes.abs().sum(-2)
    largest = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True)).squeeze(-2)
    decisive = torch.where(cube.abs() > 1e-3 * size, cube, largest)
    return torch.where(decisive < 0, -1.0, 1.0).to(vectors.dtype)


@dataclass(frozen=True)
class RitzPairs:
    """The Ritz pairs of a span, ordered and signed."""

    q: Tensor  # (..., n, K) float64
    mass: Tensor  # (..., n)
    gaps: Tensor  # (..., K)
    eigenvalues: Tensor  # (..., K) in units of the smoother's points

    @property
    def vectors(self) -> Tensor:
        """``V = M^-1/2 Q``."""
        return self.q / self.mass.sqrt()[..., None]

    def of(self, number: int, n: int) -> RitzPairs:
        """That of one cloud of a batch, its first ``n`` rows."""
        q, mass = self.q[number, :n], self.mass[number, :n]
        return RitzPairs(q, mass, self.gaps[number], self.eigenvalues[number])


@torch.no_grad()
def rotate(
    columns: Tensor,
    smoother: Smoother,
    k: int,
    *,
    gaps: Tensor | None = None,
    leading: int | None = None,
    turn: bool = True,
    sweeps: int = 0,
) -> RitzPairs:
    """The ``k`` best vectors in the span of ``columns (..., n, p)`` = M^1/2 f, of which the first
    is the constant one where the mass is known.

    Parameters
    ----------
    gaps
        ``(..., p)``: the columns are eigenvectors already, with these ``1 - mu``.
    leading
        Columns from there on only widen the span of those before; nearly dependent ones are left
        out.
    turn
        ``False`` keeps the columns and orthonormalises them in their order.
    sweeps
        Refinements that follow, each a smoothing of the first columns and a new rotation.
    """
    q, known = columns.double(), int(smoother.fixes_mass)
    if gaps is not None:
        return _finish(q, gaps, smoother, k)
    if turn and leading is not None and leading < q.shape[-1]:
        wide, present = widen(q[..., :leading], q[..., leading:])
        wide = wide[..., present] if present.ndim == 1 else wide
        if not bool(torch.isfinite(wide).all()):
            # Columns that are one, to rounding, where masses differ by many decades.
            size = q.norm(dim=-2, keepdim=True).clamp_min(torch.finfo(q.dtype).tiny)
            wide = torch.linalg.qr(q / size).Q
        q = wide
    else:
        q, _ = orthonormalise(q)
    if turn and smoother.symmetric:
        gaps, rotation = ritz(q, smoother, known=known)
        q = q @ rotation
    else:
        gaps = _quotients(q, smoother)
    for _ in range(sweeps):
        q = sweep(q[..., : max(k, leading or k)], smoother).double()
        gaps, rotation = ritz(q, smoother, known=known)
        q = q @ rotation
    return _finish(q, gaps, smoother, k)


def _quotients(q: Tensor, smoother: Smoother) -> Tensor:
    """``1 - mu`` of the columns as they are; of a `row` smoother S v = mu v in the learned mass
    q_1^2: v = q / q_1, so v^T M S v = (q q_1)^T S (q / q_1)."""
    root = torch.ones_like(q[..., :1]) if smoother.symmetric else q[..., :1]
    v = q / root
    return (q * root * (v - smoother.apply(v.to(smoother.dtype)))).sum(-2)


def _finish(q: Tensor, gaps: Tensor, smoother: Smoother, k: int) -> RitzPairs:
    """Mass, eigenvalues, order (the constant first where it is one of them, then ascending) and
    signs.
    """
    if not smoother.symmetric:
        root = q[..., 0].abs().clamp_min(torch.finfo(q.dtype).eps)
        mass = root.square() / root.square().sum(-1, keepdim=True)
        gaps = _quotients(torch.cat([mass.sqrt()[..., None], q[..., 1:]], -1), smoother)
        if bool((gaps < -(torch.finfo(smoother.dtype).eps ** 0.5)).any()):  # no average does that
            warn(
                "functions grow where they are averaged, so that mass and eigenvalues mean little: "
                "too few neighbours, or too small a bandwidth, for smoother='row'"
            )
    else:
        mass = smoother.mass.double().reshape(q.shape[:-1])
    step = smoother.step_time
    several = isinstance(step, Tensor) and step.ndim and gaps.ndim > 1
    step = step.double()[..., None] if several else float(step)
    values = (gaps / step).clamp_min(0) + (smoother.lowest or 0.0)
    zero = (q.square().sum(-2) < 0.5).to(values.dtype)  # columns that a widened span left out
    rank = values + zero * torch.finfo(values.dtype).max / 2
    if smoother.lowest is None:
        rank[..., 0] = -torch.inf
    order = rank.argsort(dim=-1, stable=True)[..., :k]
    values, gaps = values.gather(-1, order), gaps.gather(-1, order)
    q = q.gather(-1, order[..., None, :].expand(*q.shape[:-1], -1))
    root = mass.sqrt()[..., None]
    signs = canonical_signs(q / root, mass)
    signs[..., 0] = torch.where(q[..., 0].sum(-1) < 0, -1.0, 1.0)
    q = q * signs[..., None, :]
    if smoother.lowest is None:
        q[..., 0], values[..., 0] = root[..., 0], 0
    return RitzPairs(q, mass, gaps, values)


def basis_of(
    pairs: RitzPairs,
    smoother: Smoother,
    cloud: Cloud,
    *,
    extension: Extension | None = None,
    info: Facts | None = None,
) -> Basis:
    """The basis of one cloud from its Ritz pairs; ``extension`` is their values at new points."""
    facts: Facts = {"smoother": smoother.kind, "dimension": float(smoother.dimension)}
    facts |= cloud.facts() | (info or {})
    cut = cloud.short_cuts
    if cut is not None:
        if cloud.means is not None:
            cut = query(cloud.given, cloud.means, 1)[0][:, 0][cut]
        elif cloud.kept is not None:
            cut = cloud.kept[cut]
    mass, vectors = cloud.spread(pairs.mass, pairs.vectors)
    normalized = pairs.q if cloud.rows is None else vectors * mass.sqrt()[:, None]
    values = pairs.eigenvalues / cloud.frame.scale**2
    source = None if smoother.clouds else OperatorSource(kept=Prepared(cloud, smoother))
    return Basis(
        normalized, mass, values, cloud.given, facts, extension, short_cuts=cut, source=source
    )
