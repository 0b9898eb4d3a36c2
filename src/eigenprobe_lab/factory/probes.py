"""Learned probes: by descent from the cloud alone (`learn_scale`), or by held-out functions (`learn_probes`).

    S_ij(sigma) = exp(-d_ij^2 / sigma^2) / sum_j,     u_ij = x_j - x_i = tangential a_ij + normal part of length b_ij
    J(sigma) = mean_i ( |sum_j S_ij a_ij|^2 + sum_j S_ij b_ij^2 ) / mean_i sum_j S_ij d_ij^2

A smoothing step is heat on the manifold when it moves no coordinate within the tangent plane (all motion is along the
normal, by the mean curvature) and when its neighbours lie in that plane.  The first term is what a finite sample gets
wrong, and falls with sigma; the second is what curvature and nearby sheets get wrong, and grows with it.  Both are
relative to the squared reach of the step, so J has no unit and no weight to tune.  It is smooth in sigma: Adam on log
sigma finds its minimum in O(n k) a step.  Points (n, d), graph (n, k), tangent planes by local PCA (n, d, dim).

    C(theta) = sum_s w_s S^{s/2} (S^{s/2})^T / tr,   s = t, 4t, 16t;   theta = (log sigma, log t, logits of w)
    Q(theta) = leading K eigenvectors of C;   functions F (n, m), points split in three parts
    J(theta) = mean over prefixes of  |F_b - Q_b c|^2 / |F_b|^2,   c fitted to F at part a;   reported at part c

[P] names this as open ("could be learned during training rather than manually tuned"). Nothing here sees an oracle: the
functions are the user's, or monomials of the coordinates. For a symmetric smoother the mixture changes no eigenvector
(`covariance`), so what can be learned is the directed average of the paper; Nelder-Mead needs no gradient through the
eigenvectors, whose derivative is unbounded where eigenvalues meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from eigenprobe.cloud import Array, Frame, check_points
from eigenprobe.errors import InputError
from eigenprobe.graph.dimension import estimate_dimension
from eigenprobe.graph.graph import Graph, build_graph
from eigenprobe.host.validation import validated
from eigenprobe.probes.covariance import Covariance, DenseCovariance, visible_scales
from eigenprobe.smoothers.gaussian import row_smoother

PLANE = 12  # neighbours that span a tangent plane
RANGE = (0.2, 4.0)  # of the start: outside, the kernel sees one neighbour or all of them alike


@dataclass(frozen=True)
class Scale:
    """The learned ``sigma``, where it started, and the criterion along the way ``[(sigma, J), ...]``."""

    sigma: float
    start: float
    history: list[tuple[float, float]]


class ScaleCriterion:
    """``J(sigma)`` of a cloud, differentiable; the geometry is computed once."""

    def __init__(self, graph: Graph, dimension: float | None = None) -> None:
        if graph.metric != "euclidean":
            raise InputError(f"a learned scale needs Euclidean distances, got the {graph.metric} metric")
        first = 1 if graph.self_loops else 0
        indices, distances = graph.indices[:, first:], graph.distances[:, first:]
        ambient = graph.points.shape[1]
        dim = round(estimate_dimension(graph) if dimension is None else dimension)
        offsets = graph.points[indices] - graph.points[:, None]  # (n, k, d)
        near = offsets[:, : max(PLANE, dim + 1)]
        _, _, axes = torch.linalg.svd(near - near.mean(1, keepdim=True), full_matrices=False)  # (n, ., d)
        self.squared = distances.square()  # (n, k)
        self.tangential = offsets @ axes[:, : min(dim, ambient)].mT  # (n, k, dim)
        self.normal = (self.squared - self.tangential.square().sum(-1)).clamp_min(0)  # (n, k)
        self.start = float(distances[:, min(10, distances.shape[1]) - 1].median())

    def __call__(self, sigma: Tensor) -> Tensor:
        weights = torch.softmax(-self.squared / sigma.square(), 1)
        drift = (weights.unsqueeze(-1) * self.tangential).sum(1).square().sum(-1).mean()
        spread = (weights * self.squared).sum(1).mean()
        return (drift + (weights * self.normal).sum(1).mean()) / spread


def learn_scale(
    source: Tensor | Graph,
    *,
    k: int = 30,
    dimension: float | None = None,
    start: float | None = None,
    steps: int = 60,
    rate: float = 0.08,
) -> Scale:
    """Learn the kernel bandwidth ``sigma`` of a cloud ``(n, d)`` or its graph by gradient descent on `ScaleCriterion`.

    Pass the result to ``build_smoother(points, "symmetric" or "row", bandwidth=scale.sigma)``.
    """
    graph = source if isinstance(source, Graph) else build_graph(source, min(k, len(source) - 1))
    criterion = ScaleCriterion(graph, dimension)
    begin = criterion.start if start is None else start
    if not begin > 0:
        raise InputError("expected points that differ from their neighbours, got a median distance of zero")
    like = criterion.squared
    log_sigma = torch.full((), begin, dtype=like.dtype, device=like.device).log().requires_grad_()
    low, high = (float(torch.tensor(begin * factor).log()) for factor in RANGE)
    optimiser = torch.optim.Adam([log_sigma], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=0.05 * rate)
    history = []
    for _ in range(steps):
        optimiser.zero_grad()
        value = criterion(log_sigma.exp())
        value.backward()
        history.append((float(log_sigma.detach().exp()), float(value.detach())))
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            log_sigma.clamp_(low, high)
    sigma = min(history, key=lambda pair: pair[1])[0]
    return Scale(sigma, begin, history)


SPREAD = (1, 4, 16)  # scales of the mixture, in multiples of the shortest
LARGEST = 3000  # points: every trial takes the eigenvectors of a dense matrix


@dataclass(frozen=True)
class LearnedProbes:
    """What was found: ``sigma`` in units of the points, the ``steps`` of the shortest scale and the ``weights``.

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
    """Learn the paper's probes on a cloud ``(n, d)`` for ``functions (n, m)``, by default monomials up to a degree.

    What comes back holds ``sigma`` (in units of the points), ``steps``, ``weights``, the normalised ``basis (n, K)``
    and the held-out ``errors`` before and after. At most 3000 points, at least three times ``k``.
    """
    given, origin = check_points(points, k)
    n = len(given)
    if not k < n / 3 or n > LARGEST:
        raise InputError(f"expected between {3 * k + 1} and {LARGEST} points for k={k}, got {n}")
    if min(neighbours, trials, degree) < 1 or neighbours >= n or degree > 9:
        asked = f"expected neighbours from 1 to {n - 1}, trials of at least 1 and a degree from 1 to 9"
        raise InputError(f"{asked}, got {neighbours}, {trials} and {degree}")
    frame = Frame.of(given)
    x = frame(given)
    target = monomials(x, degree) if functions is None else torch.as_tensor(functions).detach().to(x)
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
        rest = [(target[seen] - q[seen, :j] @ c).square().sum() for j, c in zip(ks, solved, strict=True)]
        return float(torch.stack(rest).mean() / target[seen].square().sum())

    def trial(theta: np.ndarray) -> float:
        history.append(error(_basis(graph, k, start, steps, theta), parts[0], parts[1]))
        return history[-1]

    first = np.zeros(2 + len(SPREAD))
    corners = first + np.diag([0.7, 0.7, *[1.0] * len(SPREAD)])  # half and double, and one more unit of every logit
    options = {"maxfev": trials, "initial_simplex": np.vstack([first, corners])}
    found = minimize(trial, first, method="Nelder-Mead", options=options).x
    errors = {
        name: error(_basis(graph, k, start, steps, theta), parts[0], parts[2])
        for name, theta in (("fixed", first), ("learned", found))
    }
    sigma, shortest, weights = _settings(start, steps, found)
    q = _basis(graph, k, start, steps, found)
    basis = q.numpy() if origin.numpy else q
    return LearnedProbes(sigma * frame.scale, shortest, tuple(weights.tolist()), basis, errors, history)


def monomials(points: Tensor, degree: int = 3) -> Tensor:
    """Products of up to ``degree`` of the first three coordinates ``(n, d)``, without the constant, centred."""
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
