"""The exact covariance of the probes of a smoother, applied without drawing any.

    {s: c, ...}      C = sum_s c_s A^s                      any polynomial: see `families`;
                                                            {2t: 1} is that of probes f = A^t g
    [s, ...]         C = mean_s A^s / tr A^s                every scale has the same energy

(row: A^s is S^{s/2} (S^{s/2})^T)

Polynomials in A with non-negative coefficients share their leading eigenvectors on a symmetric
smoother, and the optimum of the expected loss is the same for each: only the weight of the
frequencies differs.  A large single `t` hides the high ones; several scales keep them visible.

`Covariance` is matrix-free: as many sparse products as the highest power.  `Covariance.dense`
multiplies the powers out by repeated squaring, log2(power) dense products once, after which a
training step costs one (n, n) x (n, K) product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from scipy.fft import dct
from torch import Tensor

from ..errors import InputError
from ..smoothers import Smoother

DENSE_LIMIT = 8192  # points up to which an n x n matrix is worth its memory
EXACT_LIMIT = 2048  # points up to which the trace is exact: half a second
# all eigenvectors cost 9 dense products of single precision, 4 of double (2000 points, one thread)
MANY_TERMS = 8
HIGH_POWER = 512  # above which a polynomial is applied by its Chebyshev series


class Covariance:
    """Matrix-free covariance of a smoother's probes; ``terms`` are powers and their weights, or
    powers of equal energy.

    Entries of the seed signal have variance one.  ``apply`` takes ``(n, K)``.
    """

    def __init__(
        self,
        smoother: Smoother,
        terms: Mapping[int, float] | Sequence[int],
        generator: torch.Generator | None = None,
    ) -> None:
        powers = list(terms)
        if not powers or min(powers) < 0 or len(set(powers)) < len(powers):
            raise InputError(f"expected distinct powers of at least 0, got {powers}")
        self.smoother = smoother
        self.balanced = not isinstance(terms, Mapping)  # every power is divided by its trace
        weights = terms if isinstance(terms, Mapping) else dict.fromkeys(terms, 1 / len(terms))
        self.terms = dict(sorted(weights.items()))  # power -> weight
        if not smoother.symmetric and any(power % 2 for power in self.terms):
            raise InputError(
                f"a row smoother has covariances of even power only, got {sorted(self.terms)}"
            )
        self._generator = generator

    @cached_property
    def coefficients(self) -> dict[int, float]:
        """Power of A -> its coefficient."""
        if not self.balanced:
            return self.terms
        traces = {
            power: float(self.trace(self._generator, terms={power: 1.0})) for power in self.terms
        }
        return {power: weight / traces[power] for power, weight in self.terms.items()}

    def apply(self, x: Tensor) -> Tensor:
        """``C x`` for ``x (..., n, K)``; differentiable in ``x``."""
        flat = x.reshape(-1, x.shape[-1])
        if flat.shape[0] != self.smoother.n:
            raise InputError(f"expected {self.smoother.n} rows, got {tuple(x.shape)}")
        return self._polynomial(flat, self.coefficients).reshape(x.shape)

    __call__ = apply

    @cached_property
    def _spectrum(self) -> tuple[Tensor, Tensor]:
        """All eigenvalues ``(n,)`` and vectors ``(n, n)`` of A, float64."""
        matrix = self.smoother.matrix.to_dense().double()
        values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
        return values, vectors

    def _polynomial(self, x: Tensor, coefficients: dict[int, Any]) -> Tensor:
        if self.smoother.symmetric:
            return polynomial(self.smoother, x, coefficients)
        total = torch.zeros_like(x)
        for power, coefficient in coefficients.items():
            total = total + coefficient * self.smoother.apply_symmetric(x, power // 2)
        return total

    @torch.no_grad()
    def trace(
        self,
        generator: torch.Generator | None = None,
        *,
        deflate: Tensor | None = None,
        count: int = 64,
        terms: dict[int, float] | None = None,
    ) -> Tensor:
        """``tr C ()``, float64: exact up to 2048 points, else Hutchinson's with ``count`` signs.

        ``deflate (n, K)`` takes the part in an orthonormal basis out exactly (Hutch++): what is
        left is small. ``terms`` are other ones than those of ``C``.
        """
        terms = self.coefficients if terms is None else terms

        def inner(x: Tensor) -> Tensor:
            return (x * self._polynomial(x, terms)).double().sum()

        smoother = self.smoother
        if smoother.n <= EXACT_LIMIT and smoother.symmetric:
            return _values(self._spectrum[0], terms).sum()
        if smoother.n <= EXACT_LIMIT:
            return inner(torch.eye(smoother.n, device=smoother.device, dtype=smoother.dtype))
        signs = _random_signs(smoother, count, generator)
        if deflate is None:
            return inner(signs) / count
        basis = deflate.to(signs)
        return inner(basis) + inner(signs - basis @ (basis.mT @ signs)) / count

    @torch.no_grad()
    def dense(self, dtype: torch.dtype | None = None) -> DenseCovariance:
        """The matrix itself ``(n, n)``, by repeated squaring; for up to a few thousand points."""
        smoother = self.smoother
        matrix = smoother.matrix.to_dense()
        matrix = matrix if dtype is None else matrix.to(dtype)
        if smoother.symmetric and len(self.terms) > MANY_TERMS and not self.balanced:
            values, vectors = self._spectrum
            found = (vectors * _values(values, self.terms)) @ vectors.mT
            return DenseCovariance(found.to(matrix.dtype))
        total, current, at = torch.zeros_like(matrix), matrix, 1
        for power, weight in self.terms.items():  # ascending
            exponent = power if smoother.symmetric else power // 2
            if at and exponent % at == 0:  # A^64 from A^16 is two squarings
                current = torch.linalg.matrix_power(current, exponent // at)
            else:
                current = current @ torch.linalg.matrix_power(matrix, exponent - at)
            at = exponent
            term = current if smoother.symmetric else current @ current.mT
            total += term * (
                weight / term.diagonal().double().sum().to(term.dtype) if self.balanced else weight
            )
        return DenseCovariance(0.5 * (total + total.mT))


class DenseCovariance:
    """Covariances as matrices ``(..., n, n)``: one product applies them."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self._trace = matrix.diagonal(dim1=-2, dim2=-1).double().sum(-1)

    def apply(self, x: Tensor) -> Tensor:
        return self.matrix @ x.to(self.matrix.dtype)

    __call__ = apply

    def trace(
        self, generator: torch.Generator | None = None, *, deflate: Tensor | None = None
    ) -> Tensor:
        """``tr C (...)``, exact without either of what an estimate takes."""
        return self._trace

    def to(self, device: torch.device | str) -> DenseCovariance:
        """The same covariances on a device."""
        return DenseCovariance(self.matrix.to(device))


@torch.no_grad()
def visible_scales(
    smoother: Smoother,
    k: int,
    *,
    spread: Sequence[int] = (1, 4, 16),
    generator: torch.Generator | None = None,
    count: int = 16,
    most: int = 1 << 14,
) -> tuple[int, ...]:
    """Powers of A at which ``k`` vectors matter: multiples ``spread`` of the ``s`` with ``tr A^s``
    about ``k``.

    The trace of ``A^s`` is the number of modes that ``s`` steps have not yet damped, whatever the
    time of one step.  It is estimated as ``|A^{s/2} x|^2`` over random signs, doubling ``s``, so
    that powers are powers of two.
    """
    x = _random_signs(smoother, count, generator)
    step = smoother.apply if smoother.symmetric else smoother.apply_transpose
    power, done, before = 2, 0, float("inf")
    while True:
        for _ in range(power // 2 - done):
            x = step(x)
        done = power // 2
        visible = float(x.double().square().sum()) / count
        if visible <= k or power >= most:
            break
        power, before = 2 * power, visible
    if before / k < k / max(visible, 1e-300):  # the one before was nearer to k
        power //= 2
    return tuple(power * factor for factor in spread)


def _random_signs(smoother: Smoother, count: int, generator: torch.Generator | None) -> Tensor:
    """``(n, count)``, of Hutchinson's estimate of a trace."""
    device = smoother.device if generator is None else generator.device
    drawn = torch.rand((smoother.n, count), generator=generator, device=device)
    return torch.where(drawn < 0.5, -1.0, 1.0).to(device=smoother.device, dtype=smoother.dtype)


def polynomial(smoother: Smoother, x: Tensor, terms: Mapping[int, float]) -> Tensor:
    """``sum_s terms[s] A^s x``: of high powers as Chebyshev polynomials, about ``sqrt(40 s)``
    products instead of s; otherwise by Horner's rule, which keeps no block of vectors but ``x``."""
    if max(terms) > HIGH_POWER and smoother.symmetric:
        series = _chebyshev(tuple(terms.items()))
        before, now = torch.zeros_like(x), float(series[-1]) * x
        for coefficient in series[-2:0:-1].tolist():  # Clenshaw's recurrence
            before, now = now, coefficient * x + 2 * smoother.apply(now) - before
        return float(series[0]) * x + smoother.apply(now) - before
    total = terms[last := max(terms)] * x
    for power in range(last - 1, -1, -1):
        total = smoother.apply(total)
        total = total + terms[power] * x if power in terms else total
    return total


@lru_cache(maxsize=64)
def _chebyshev(terms: tuple[tuple[int, float], ...]) -> np.ndarray:
    """Coefficients of ``sum_s c_s x^s`` in Chebyshev polynomials on [-1, 1], without those that
    rounding hides.
    """
    size = 256
    while True:
        nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
        values = _values(torch.from_numpy(nodes), dict(terms)).numpy()
        found = dct(values, type=2) / size
        found[0] /= 2
        # A power of ten thousand knows its own value no better than to so many roundings.
        hidden = 1e4 * np.finfo(float).eps
        kept = np.flatnonzero(np.abs(found) > hidden * np.abs(found).max())
        if kept[-1] < 3 * size // 4 or size > max(power for power, _ in terms):
            return found[: max(2, int(kept[-1]) + 1)]
        size *= 2


def _values(x: Tensor, terms: Mapping[int, float]) -> Tensor:
    """``sum_s c_s x^s`` entry by entry, ``x`` float64."""
    powers, total = sorted(terms), torch.zeros_like(x)
    gaps = np.diff([0, *powers])
    for power, gap in zip(reversed(powers), reversed(gaps.tolist()), strict=True):
        total = (total + terms[power]) * x**gap
    return total
