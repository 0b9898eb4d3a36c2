"""Whether the first ten eigenvalues are likely to be off by more than a tenth: one small model of
numbers that the graph, the mass and the vectors hold.

    resolution   lambda_11 sum_i m_i h_i^2     h_i^2: mean squared distance to 4 neighbours; a wave
                                               of that eigenvalue has about 40 / resolution samples
    sparseness   sum_i m_i h_i^2 / median h^2  much of the mass has hardly a point
    layers       pi / sqrt(lambda_2 h^2), times 1 / n on a surface     points across
    boundary     share of the mass whose cells are open
    leap         the largest median d_{j+1} / d_j       points in groups, as copies are
    thickness    s_{dim+1} / s_1 of 10 neighbours       deviations across and along
    noise        deviation from the quadric through 16 neighbours over their spacing
    jumps        share of the energy of the vectors in edges that leave the tangents
    cuts, n, grid (d_c / d_1), dimension, and whether the caller chose it

    logit = MLP(numbers)     trained on clouds of known spectrum (`eigenprobe_lab.factory.doubt`)

What is said is the number that lies farthest from those of clouds that are right.  All but two
means and one sort is read from some points, on the host.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..cloud.quadrics import fit_quadrics
from ..eigen.span import RitzPairs
from ..errors import warn
from ..neighbors.graph import Graph
from ..neighbors.layout import principal_axes
from ..smoothers import BALANCED_DIMENSIONS, Smoother
from ..smoothers.cells import open_cells
from ..smoothers.prepared import Prepared

SAMPLES = 512  # points that are looked at
SHIPPED = Path(__file__).parent / "weights" / "doubt.safetensors"
REASONS = {
    "resolution": "{n} points are too few for vectors that oscillate so much",
    "sparseness": "much of the area has hardly a point, or some points are outliers: remove them, "
    "or sample it more evenly",
    "layers": "few points lie side by side where it is narrow: use more points",
    "boundary": "much of it lies at a boundary, where weights are cut off: use more points",
    "leap": "points come in groups, as copies do: keep one of each",
    "thickness": "noise or a width beside the distance of neighbours, for a {what}: use fewer "
    "points",
    "noise": "noise beside the distance of neighbours, for a {what}: clean the points, or use "
    "fewer",
    "jumps": "turns or folds lie as near each other as points: use more points there",
    "cuts": "many edges were taken for short-cuts: compare neighbours='plain'",
    "counted": "the dimension {dimension:.2g} was counted from neighbours, which boundaries "
    "lower: pass dimension=",
}
# The numbers that a reason is named after come first; the others only tell how to read them.
NUMBERS = (*REASONS, "points", "pair", "third", "ring", "curve", "solid", "chosen", "size")
WHAT = {1: "curve", 2: "surface", 3: "solid"}


def doubt_network() -> nn.Sequential:
    """The model, untrained."""
    return nn.Sequential(nn.Linear(len(NUMBERS), 32), nn.SiLU(), nn.Linear(32, 1))


@cache
def _shipped() -> tuple[nn.Sequential, Tensor, Tensor]:
    """The model that comes with the package, the usual and the worst numbers ``(2, reasons)`` of
    clouds that are right, and the least and the largest ``(2, numbers)`` that it has seen.
    """
    held = load_file(SHIPPED)
    right, span = held.pop("right"), held.pop("span")
    found = doubt_network()
    found.load_state_dict(held)
    return found.eval().requires_grad_(False), right, span


@torch.no_grad()
def warn_of_errors(prepared: Prepared, rotation: RitzPairs, chosen: bool) -> None:
    """One line where the first ten are likely to be off; ``chosen``: the caller gave the
    dimension.
    """
    numbers = describe(prepared, rotation, chosen)
    if numbers is None:
        return
    network, (usual, worst), (low, high) = _shipped()
    if float(network(numbers.clamp(low, high))) < 0:
        return
    smoother, excess = prepared.smoother, (numbers[: len(REASONS)] - usual) / (worst - usual)
    reason = list(REASONS.values())[int(excess.argmax())].format(
        n=smoother.n,
        dimension=smoother.dimension,
        what=WHAT.get(round(smoother.dimension), "manifold"),
    )
    warn(
        f"the first eigenvalues may be off by more than 10 %: {reason} "
        "(basis.uncertainty estimates by how much)"
    )


@torch.no_grad()
def describe(prepared: Prepared, rotation: RitzPairs, chosen: bool) -> Tensor | None:
    """What the model reads, ``(len(NUMBERS),)``; None of what is not judged."""
    smoother, graph = prepared.smoother, prepared.smoother.graph
    if graph is None or graph.metric != "euclidean" or len(rotation.eigenvalues) < 2:
        return None
    graph, flat = graph.without_loops(), round(smoother.dimension)
    if graph.k < 3:
        return None
    n, d, mass = graph.n, graph.points.shape[1], smoother.mass.double()
    squared = graph.distances[:, :4].square().double().mean(1)
    weighted = float((mass * squared).sum() / mass.sum())
    last = rotation.eigenvalues[min(10, len(rotation.eigenvalues) - 1)]
    rows = torch.arange(0, n, max(1, n // SAMPLES), device=graph.device)
    some = _around(graph, rows)
    tiny = torch.finfo(some.distances.dtype).tiny
    near, own = some.distances[:, :9].clamp_min(tiny), mass[rows].cpu()
    first = max(float(rotation.eigenvalues[1]) * weighted, 1e-12) ** 0.5 / math.pi
    across = {2: n * first, 3: 1 / first}.get(flat, float(n))
    places = torch.arange(len(rows))
    open_ = open_cells(some, places, flat) if flat in (2, 3) else torch.zeros_like(own).bool()
    on_sheet = flat in (1, 2) and flat < d
    cuts = 0 if prepared.cloud.short_cuts is None else len(prepared.cloud.short_cuts)
    counted = not chosen and smoother.dimension >= BALANCED_DIMENSIONS < d
    ratio = (near[:, 1:] / near[:, :-1]).median(0).values
    ring = min(2 * flat, near.shape[1]) - 1
    found = {
        "resolution": _log(float(last) * weighted),
        "sparseness": _log(weighted / max(float(squared.median()), 1e-300)),
        "layers": _log(across),
        "boundary": float(own[open_].sum() / own.sum()),
        "leap": _log(float(ratio.max())),
        "thickness": _thickness(some, flat) if on_sheet else 0.0,
        "noise": _noise(some) if flat == 2 and d == 3 else 0.0,
        "jumps": _jumps(smoother, some, rows, rotation.vectors[:, 1:11]) if on_sheet else 0.0,
        "cuts": cuts / n,
        "points": 0.0 if chosen else _log(n),
        "counted": float(counted),
        "pair": _log(float((near[:, 1] / near[:, 0]).median())),
        "third": _log(float((near[:, 2] / near[:, 1]).median())),
        "ring": _log(float((near[:, ring] / near[:, 0]).median())),
        "curve": float(flat == 1),
        "solid": float(flat == 3),
        "chosen": float(chosen),
        "size": _log(n),
    }
    return torch.tensor([found[name] for name in NUMBERS]).clamp(-10, 10)


def _log(value: float) -> float:
    return math.log(max(value, 1e-6))


def _around(graph: Graph, rows: Tensor) -> Graph:
    """Some points ``(s,)`` and their neighbours as a graph of their own, on the host."""
    near, count = graph.indices[rows], len(rows)
    points = torch.cat([graph.points[rows], graph.points[near.flatten()]]).detach().cpu()
    indices = count + torch.arange(near.numel()).view(near.shape)
    return Graph(points, indices, graph.distances[rows].detach().cpu())


def _thickness(some: Graph, dimension: int) -> float:
    """The median ratio of the deviations of nearest neighbours across and along a curve or a
    surface.
    """
    offsets = some.points[some.indices[:, :10]].double()
    offsets = offsets - offsets.mean(1, keepdim=True)
    variances = principal_axes(offsets.mT @ offsets)[0].clamp_min(0).flip(1)
    ratio = variances[:, dimension] / variances[:, 0].clamp_min(torch.finfo(variances.dtype).tiny)
    return float(ratio.sqrt().median())


def _noise(some: Graph) -> float:
    """The median deviation of neighbours from quadrics in distances of neighbours."""
    count = min(16, some.k)
    offsets = some.points[some.indices[:, :count]] - some.points[: len(some.indices), None]
    spacing = some.distances[:, count - 1] * (math.pi / (count + 1)) ** 0.5
    found = fit_quadrics(offsets).deviation / spacing.clamp_min(torch.finfo(spacing.dtype).tiny)
    return float(found.median())


def _jumps(smoother: Smoother, some: Graph, rows: Tensor, vectors: Tensor) -> float:
    """The root mean square over functions ``vectors (n, K)`` of the share of their energy in the
    edges of some points that are steep to the manifold there: between its turns or folds.
    """
    heads, tails, values = smoother.entries()
    chosen = torch.zeros(smoother.n, dtype=torch.bool, device=heads.device)
    chosen[rows] = True
    kept = (chosen[heads] & (heads != tails)).nonzero()[:, 0]
    heads, tails, values = heads[kept], tails[kept], values[kept]
    root, points = smoother.mass.sqrt(), smoother.known_graph.points
    energy = (values * root[heads] * root[tails])[:, None]
    energy = (energy * (vectors[heads] - vectors[tails]).square()).cpu()
    chord = (points[tails] - points[heads]).detach().cpu()
    frames = some.frames(round(smoother.dimension), slice(0, len(rows)))
    place = torch.searchsorted(rows.cpu(), heads.cpu())
    along = (chord[:, None] @ frames[place])[:, 0].norm(dim=1)
    steep = along < 0.5 * chord.norm(dim=1)
    total = energy.sum(0).clamp_min(torch.finfo(energy.dtype).tiny)
    return float((energy[steep].sum(0) / total).square().mean().sqrt())
