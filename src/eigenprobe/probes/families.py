"""Families of probes: what is done to the noise, what noise it is, and which basis that makes best.

    f = p(A) g,   E[g g^T] = G,   C = p(A) G p(A)^T        A (n, n), f (n, m)
    best basis: leading eigenvectors of C

    family      p(A)                             response to an eigenvector with eigenvalue mu
    heat        A^t                              mu^2t: the paper's
    resolvent   A^T, T geometric of mean t       1 / (1 + t (1 - mu^2)): high ones stay visible
    polynomial  (I + A + ... + A^t) / (t + 1)    between the two
    wavelet     A^t - A^2t                       zero at the constant: a band in the middle
    hadamard    A^t                              heat; columns of a Hadamard matrix for noise
    features    A^t                              G: random cosines of the points, smooth already

Where p is a polynomial and G = I the covariance is a polynomial in A, exact, and applied by sparse
products. `register` adds a family by its polynomial; a function of the user's own draws probes that
have no closed form but their PCA.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from ..eigen import RitzPairs, canonical_signs
from ..errors import InputError
from ..host.files import Facts
from ..points import Frame
from ..smoothers import Smoother
from .covariance import Covariance, DenseCovariance, polynomial, visible_scales
from .probes import seed_signal

Seeds = Literal["noise", "hadamard", "features"]
# points up to which all eigenvectors cost less than the leading ones of a matrix-free covariance
DENSE = 1200
WIDTH = 0.25  # of random-feature seeds: their length scale in the unit sphere
TAIL = 8  # the geometric law of steps is cut at so many times its mean


@dataclass(frozen=True)
class Family:
    """``terms(t)``: power -> coefficient of p; with ``random_steps``: number of steps -> its
    chance.
    """

    name: str
    terms: Callable[[int], Mapping[int, float]]
    random_steps: bool = False
    seeds: Seeds = "noise"

    def draw(
        self,
        smoother: Smoother,
        count: int,
        steps: int,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """``m`` probes ``(n, m)``; seeds have variance one."""
        signal = self._seed(smoother, count, generator)
        law = self.terms(steps)
        if self.random_steps:
            chances = torch.tensor(list(law.values()), dtype=torch.float64)
            place = torch.Generator() if generator is None else generator
            chosen = torch.multinomial(
                chances.to(place.device), count, replacement=True, generator=place
            ).cpu()
            lengths = torch.tensor(list(law))[chosen]
            for step in range(int(lengths.max())):
                signal = torch.where(
                    (lengths > step).to(signal.device), smoother.apply(signal), signal
                )
            return signal
        return polynomial(smoother, signal, law)

    def _seed(self, smoother: Smoother, count: int, generator: torch.Generator | None) -> Tensor:
        like = torch.empty(0, device=smoother.device, dtype=smoother.dtype)
        n = smoother.n
        if self.seeds == "hadamard":
            device = torch.device("cpu") if generator is None else generator.device
            size = 1 << max(n - 1, count - 1).bit_length()
            rows = torch.randperm(size, generator=generator, device=device)[:n].to(like.device)
            # H_ij = (-1)^(common bits of i and j)
            both = rows[:, None] & torch.arange(count, device=like.device)
            for shift in (32, 16, 8, 4, 2, 1):
                both = both ^ (both >> shift)
            return (1 - 2 * (both & 1)).to(like)
        if self.seeds == "features":
            points = _unit(smoother).to(like)
            waves = torch.empty((points.shape[1], count)).to(like).normal_(generator=generator)
            turns = torch.empty(count).to(like).uniform_(generator=generator)
            return 2**0.5 * torch.cos(points @ waves / WIDTH + 2 * torch.pi * turns)
        return 3**0.5 * seed_signal(n, count, "uniform", like, generator)

    def covariance(self, smoother: Smoother, steps: int) -> Covariance | DenseCovariance:
        """``C``, exactly."""
        terms = self.terms(steps)
        if self.seeds == "features":
            points = _unit(smoother).double()
            kernel = torch.exp(-torch.cdist(points, points).square() / (2 * WIDTH**2))
            filtered = polynomial(smoother, kernel.to(smoother.dtype), terms)
            matrix = polynomial(smoother, filtered.T.contiguous(), terms)
            return DenseCovariance(0.5 * (matrix + matrix.T))
        if not smoother.symmetric and self.name not in ("heat", "hadamard"):
            raise InputError(
                f"probes {self.name!r} need a symmetric smoother, got {smoother.kind!r}"
            )
        if self.random_steps:
            return Covariance(smoother, {2 * t: p for t, p in terms.items()})
        powers: dict[int, float] = {}
        for a, first in terms.items():
            for b, second in terms.items():
                powers[a + b] = powers.get(a + b, 0.0) + first * second
        return Covariance(smoother, powers)


def _unit(smoother: Smoother) -> Tensor:
    """The points of the smoother's graph, centred, of radius one."""
    points = smoother.known_graph.points
    return Frame.of(points)(points, points.dtype)


def _geometric(t: int) -> dict[int, float]:
    ratio = t / (t + 1)
    law = {s: ratio**s for s in range(TAIL * max(t, 1) + 1)}
    total = sum(law.values())
    return {s: p / total for s, p in law.items()}


FAMILIES = {
    each.name: each
    for each in (
        Family("heat", lambda t: {t: 1.0}),
        Family("resolvent", _geometric, random_steps=True),
        Family("polynomial", lambda t: dict.fromkeys(range(t + 1), 1 / (t + 1))),
        Family("wavelet", lambda t: {t: 1.0, 2 * t: -1.0}),
        Family("hadamard", lambda t: {t: 1.0}, seeds="hadamard"),
        Family("features", lambda t: {t: 1.0}, seeds="features"),
    )
}


def register(name: str, terms: Callable[[int], Mapping[int, float]], **options: Any) -> Family:
    """Enter a family: ``register("double", lambda t: {t: 1.0, 3 * t: 1.0})`` smooths by A^t +
    A^3t.
    """
    FAMILIES[name] = Family(name, terms, **options)
    return FAMILIES[name]


def family(name: str) -> Family:
    """A family by name."""
    if name not in FAMILIES:
        raise InputError(
            f"probes must be an array, a function or one of {', '.join(FAMILIES)}, got {name!r}"
        )
    return FAMILIES[name]


def visible_steps(smoother: Smoother, k: int, generator: torch.Generator | None = None) -> int:
    """The number of steps t such that A^2t keeps about ``k`` modes."""
    return visible_scales(smoother, k, spread=(1,), generator=generator)[0] // 2


@torch.no_grad()
def best_of_family(
    name: str,
    smoother: Smoother,
    k: int,
    *,
    steps: int | None = None,
    generator: torch.Generator | None = None,
) -> tuple[RitzPairs, Facts]:
    """The ``k`` leading eigenvectors of the covariance of a family, by descending energy, and what
    they explain.
    """
    steps = visible_steps(smoother, k, generator) if steps is None else steps
    covariance = family(name).covariance(smoother, steps)
    energies, q = leading(covariance, smoother.n, k, smoother)
    explained = (energies / float(covariance.trace(generator))).tolist()
    return ordered(q, smoother), {"probes": name, "steps": steps, "explained": explained}


def mass_of(smoother: Smoother) -> Tensor:
    """The mass ``(n,)``, float64; an error where there is none."""
    if not smoother.symmetric:
        raise InputError(
            "probes need a smoother with a mass, got kind 'row': use 'adaptive' or 'symmetric'"
        )
    return smoother.mass.double()


def ordered(q: Tensor, smoother: Smoother) -> RitzPairs:
    """A basis ``(n, k)`` as it is, signed; eigenvalues are its Rayleigh quotients, which need not
    ascend.
    """
    mass = mass_of(smoother)
    q = q * canonical_signs(q / mass.sqrt()[:, None], mass)
    gaps = (q * (q - smoother.apply(q.to(smoother.dtype)))).sum(0).clamp_min(0)
    return RitzPairs(q, mass, gaps, gaps / float(smoother.step_time))


def leading(
    covariance: Covariance | DenseCovariance, n: int, k: int, like: Smoother
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest eigenvalues ``(k,)``, descending, and their eigenvectors ``(n, k)``,
    float64.
    """
    if isinstance(covariance, DenseCovariance) or n <= DENSE:
        dense = covariance if isinstance(covariance, DenseCovariance) else covariance.dense()
        values, vectors = torch.linalg.eigh(dense.matrix.double())
    else:

        def apply(x: np.ndarray) -> np.ndarray:
            block = torch.as_tensor(x.reshape(n, -1)).to(like.device, like.dtype)
            return covariance.apply(block).double().cpu().numpy().reshape(x.shape)

        operator = LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)
        found = eigsh(operator, k, which="LA", v0=np.ones(n) + np.sin(np.arange(n)))
        values, vectors = (torch.as_tensor(each).to(like.device) for each in found)
    order = values.argsort(descending=True)[:k]
    return values[order], vectors[:, order]
