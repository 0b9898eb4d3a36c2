"""Probes learned by held-out functions (`learn_probes`); the bandwidth alone is `scale`.

    C(theta) = sum_s w_s S^{s/2} (S^{s/2})^T / tr,   s = t, 4t, 16t;   theta = (log sigma, log t,
    logits of w) Q(theta) = leading K eigenvectors of C;   functions F (n, m), points split in three
    parts J(theta) = mean over prefixes of  |F_b - Q_b c|^2 / |F_b|^2,   c fitted to F at part a;
    reported at part c

[P] names this as open ("could be learned during training rather than manually tuned"). Nothing here
sees an oracle: the functions are the user's, or monomials of the coordinates. For a symmetric
smoother the mixture changes no eigenvector (`covariance`), so what can be learned is the directed
average of the paper; Nelder-Mead needs no gradient through the eigenvectors, whose derivative is
unbounded where eigenvalues meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from eigenprobe.cloud import Array, Frame, check_points
from eigenprobe.errors import InputError
from eigenprobe.graph import Graph, build_graph
from eigenprobe.host.validation import validated
from eigenprobe.probes import Covariance, DenseCovariance, visible_scales
from eigenprobe.smoothers.gaussian import row_smoother

SPREAD = (1, 4, 16)  # scales of the mixture, in multiples of the shortest
LARGEST = 3000  # points: every trial takes the eigenvectors of a dense matrix


@dataclass(frozen=True)
class LearnedProbes:
    """What was found: ``sigma`` in units of the points, the ``steps`` of the shortest scale and the
    ``weights``.

    ``errors`` holds the held-out error before and after, at points that took no part in learning.
    """

    sigma: float
    steps: int
    weights: tuple[float, ...]
    basis: Array  # (n, K), normalised; of the kind that came in
    errors: dict[str, float]
    history: list[float] = field(default_factory=list)


@validated
def learn_probes(
    points: Array,
    k: int = 20,
    functions: Array | None = None,
    *,
    neighbours: int = 15,
    trials: int = 80,
    degree: int = 5,
    seed: int = 0,
) -> LearnedProbes:
    """Learn the paper's probes on a cloud ``(n, d)`` for ``functions (n, m)``, by default monomials
    up to a degree.

    What comes back holds ``sigma`` (in units of the points), ``steps``, ``weights``, the normalised
    ``basis (n, K)`` and the held-out ``errors`` before and after. At most 3000 points, at least
    three times ``k``.
    """
    given, origin = check_points(points, k)
    n = len(given)
    if not k < n / 3 or n > LARGEST:
        raise InputError(f"expected between {3 * k + 1} and {LARGEST} points for k={k}, got {n}")
    if min(neighbours, trials, degree) < 1 or neighbours >= n or degree > 9:
        asked = (
            f"expected neighbours from 1 to {n - 1}, trials of at least 1 and a degree from 1 to 9"
        )
        raise InputError(f"{asked}, got {neighbours}, {trials} and {degree}")
    frame = Frame.of(given)
    x = frame(given)
    target = (
        monomials(x, degree) if functions is None else torch.as_tensor(functions).detach().to(x)
    )
    if target.ndim != 2 or len(target) != n or not target.numel():
        raise InputError(f"expected functions (n, m) of {n} values, got {tuple(target.shape)}")
    graph = build_graph(x, neighbours)
    generator = torch.Generator().manual_seed(seed)
    parts = torch.randperm(n, generator=generator).tensor_split(3)
    start = float(graph.distances[:, min(10, neighbours) - 1].median())
    steps = visible_scales(row_smoother(graph, start, 2.0), k, spread=(1,), generator=generator)[0]
    history: list[float] = []

    def error(q: Tensor, fit: Tensor, seen: Tensor) -> float:
        ks = sorted({max(1, k // 4), max(1, k // 2), k})
        solved = [torch.linalg.lstsq(q[fit, :j], target[fit]).solution for j in ks]
        rest = [
            (target[seen] - q[seen, :j] @ c).square().sum() for j, c in zip(ks, solved, strict=True)
        ]
        return float(torch.stack(rest).mean() / target[seen].square().sum())

    def trial(theta: np.ndarray) -> float:
        history.append(error(_basis(graph, k, start, steps, theta), parts[0], parts[1]))
        return history[-1]

    first = np.zeros(2 + len(SPREAD))
    corners = first + np.diag(
        [0.7, 0.7, *[1.0] * len(SPREAD)]
    )  # half and double, and one more unit of every logit
    options = {"maxfev": trials, "initial_simplex": np.vstack([first, corners])}
    found = minimize(trial, first, method="Nelder-Mead", options=options).x
    q = {
        name: _basis(graph, k, start, steps, theta)
        for name, theta in (("fixed", first), ("learned", found))
    }
    errors = {name: error(columns, parts[0], parts[2]) for name, columns in q.items()}
    sigma, shortest, weights = _settings(start, steps, found)
    basis = q["learned"].numpy() if origin.numpy else q["learned"]
    return LearnedProbes(
        sigma * frame.scale, shortest, tuple(weights.tolist()), basis, errors, history
    )


def monomials(points: Tensor, degree: int = 3) -> Tensor:
    """Products of up to ``degree`` of the first three coordinates ``(n, d)``, without the constant,
    centred.
    """
    columns, last = [], [torch.ones(len(points), dtype=points.dtype, device=points.device)]
    for _ in range(degree):
        last = [x * column for column in last for x in points[:, :3].T]
        columns += last
    stacked = torch.stack(columns, 1)
    return stacked - stacked.mean(0)


def _settings(start: float, steps: int, theta: np.ndarray) -> tuple[float, int, np.ndarray]:
    sigma = start * float(np.exp(np.clip(theta[0], -1.6, 1.4)))
    shortest = 2 * max(1, round(steps / 2 * float(np.exp(np.clip(theta[1], -2, 2)))))
    weights = np.exp(theta[2:] - theta[2:].max())
    return sigma, shortest, weights / weights.sum()


@torch.no_grad()
def _basis(graph: Graph, k: int, start: float, steps: int, theta: np.ndarray) -> Tensor:
    """``Q (n, K)`` of one choice."""
    sigma, shortest, weights = _settings(start, steps, theta)
    smoother = row_smoother(graph, sigma, 2.0)
    total = torch.zeros(graph.n, graph.n, dtype=torch.float64)
    for weight, spread in zip(weights.tolist(), SPREAD, strict=True):
        term: DenseCovariance = Covariance(smoother, scales=[shortest * spread]).dense()
        total += weight * term.matrix
    return torch.linalg.eigh(total).eigenvectors.flip(-1)[:, :k]
