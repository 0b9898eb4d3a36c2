"""Which neighbours are real: the shipped network judges the suspicious edges of a graph, and short-cuts are cut.

    graph (n, k) -> suspects -> logits (e,) -> edges above the threshold are cut -> graph without them

A row that lost neighbours keeps the real ones among those that were judged and repeats its nearest one to the end.
Cut edges of which the network is not certain go on as `Graph.doubtful`, with a share of their weight.
Cuts that would split off a part are undone at the half of its edges that the network was less sure of, unless it is
sure of nearly all edges round the part, which are then all cut: a wrong split adds a vanishing eigenvalue and moves
every vector after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph, components, estimate_dimension
from ..graph.arranged import Arranged
from .network import SHIPPED, ShortcutNetwork, read_shortcut
from .suspicion import SUSPICION, Suspects, find_suspects


@dataclass(frozen=True)
class Decision:
    """When an edge is cut; chosen on the development shapes (`docs/constants.md`)."""

    threshold: float = 2.0  # logit above which an edge is a short-cut; in training they weigh six times as much
    bold: float = 0.5  # the same where most points are suspicious: coarse and noisy clouds have more short-cuts ...
    doubtful: tuple[float, float] = (0.1, 0.6)  # ... by the share of such points, from the one to the other
    careful: float = 3.5  # the same on a very uneven cloud, where false cuts are more common ...
    uneven: tuple[float, float] = (0.15, 0.45)  # ... by the deviation of the log of the spacing
    certain: float = 3.0  # logit up to which a cut edge is in doubt: it keeps a share of its weight ...
    adjacent: int = 5  # ... if it joins a point to one of its nearest: stencils are small
    sure: float = 2.2  # tenth percentile of the logits round a part above which it may be split off ...
    part: int = 20  # ... if it has at least so many points
    near: int = 4  # real neighbours of each point that must hold the cloud together
    rounds: int = 40  # of restoring


DECISION = Decision()


@cache
def shipped() -> ShortcutNetwork:
    """The network that comes with the package, on the host."""
    return read_shortcut(SHIPPED).eval().requires_grad_(False)


Neighbours = Literal["learned", "plain"] | int


def without_short_cuts(
    cloud: Arranged, neighbours: Neighbours | None = None, dimension: float | None = None
) -> tuple[Arranged, float]:
    """The cloud with the short-cuts cut from its graph, and its dimension; `"learned"` is the default.

    Only surfaces in three dimensions are judged: a number of neighbours, `"plain"`, another metric and any other
    dimension leave the graph as it is.
    """
    if isinstance(neighbours, str) and neighbours not in ("learned", "plain"):
        raise InputError(f"neighbours must be 'learned', 'plain' or a whole number, got {neighbours!r}")
    graph = cloud.graph
    dimension = estimate_dimension(graph) if dimension is None else dimension
    judged = neighbours in (None, "learned") and graph.metric == "euclidean" and graph.points.shape[1] == 3
    if not judged or round(dimension) != 2 or graph.k < SUSPICION.judged:
        return cloud, dimension
    graph, pairs = real_neighbours(graph)
    return replace(cloud, graph=graph, short_cuts=pairs), dimension


@torch.no_grad()
def real_neighbours(
    graph: Graph, network: ShortcutNetwork | None = None, decision: Decision = DECISION
) -> tuple[Graph, Tensor]:
    """The graph without its short-cuts, and the edges ``(c, 2)`` that were cut, as rows of the graph."""
    suspects = find_suspects(graph)
    nothing = torch.empty((0, 2), dtype=torch.int64, device=graph.device)
    if suspects is None:
        return graph, nothing
    network = shipped() if network is None else network
    if next(network.parameters()).device != graph.device:
        network = network.to(graph.device)
    with torch.inference_mode():
        logits = network(suspects)
    cut, doubtful = decide(graph, suspects, logits, decision)
    ends = torch.stack([suspects.nodes[suspects.edges.head], suspects.nodes[suspects.edges.tail]], 1)
    if not bool(cut.any()):
        return graph, nothing
    return replace(keep_only(graph, _kept(suspects.entry, cut)), doubtful=ends[doubtful]), ends[cut]


def _kept(entry: Tensor, cut: Tensor) -> Tensor:
    """Which entries ``(n, judged)`` are real: -1 finds the last of all, which was not judged."""
    return ~torch.cat([cut, cut.new_zeros(1)])[entry]


def decide(graph: Graph, suspects: Suspects, logits: Tensor, decision: Decision = DECISION) -> tuple[Tensor, Tensor]:
    """Which of the judged edges ``(e,)`` are cut, and at which of those a doubt remains."""
    cut = logits > _thresholds(graph, suspects, decision)[suspects.owner[suspects.edges.head]]
    head, tail = suspects.nodes[suspects.edges.head], suspects.nodes[suspects.edges.tail]
    entry = suspects.entry
    rows = torch.arange(graph.n, device=graph.device)[:, None].expand_as(entry)
    settled = torch.zeros_like(cut)  # round parts that may be split off
    for _ in range(decision.rounds if bool(cut.any()) else 0):
        kept = _kept(entry, cut)
        few = kept & (kept.cumsum(1, dtype=torch.int8) <= decision.near)
        count, labels = components(rows[few], graph.indices[:, : entry.shape[1]][few], graph.n)
        between = ~settled & (labels[head] != labels[tail])
        if count == 1 or not bool((between & cut).any()):
            break
        size = torch.bincount(labels, minlength=count)
        part = torch.where(size[labels[head]] < size[labels[tail]], labels[head], labels[tail])
        low = _quantiles(logits[between], part[between], count, 0.1)
        middle = _quantiles(logits[between & cut], part[between & cut], count, 0.5)
        apart = between & ((size >= decision.part) & (low > decision.sure))[part]
        settled |= apart
        cut = (cut | apart) & ~(between & ~apart & (logits <= middle[part]))
    return cut, cut & ~settled & suspects.among(decision.adjacent) & (logits < decision.certain)


def _thresholds(graph: Graph, suspects: Suspects, decision: Decision) -> Tensor:
    """The logit above which edges of every cloud are cut, ``(b,)``."""
    spacing = graph.distances[:, :6].square().mean(1).clamp_min(torch.finfo(graph.distances.dtype).tiny).log() / 2
    clouds = graph.each
    apart = spacing - clouds.spread(clouds.mean(spacing))
    deviation = (clouds.sum(apart.square()) / (clouds.counts - 1)).sqrt()
    doubtful = torch.bincount(suspects.owner[suspects.suspicious], minlength=len(clouds)) / clouds.counts
    usual = decision.threshold + (decision.bold - decision.threshold) * _way(doubtful, decision.doubtful)
    return usual + (decision.careful - usual) * _way(deviation, decision.uneven)


def _way(values: Tensor, ends: tuple[float, float]) -> Tensor:
    """How far values are from the one end to the other, in [0, 1]."""
    return ((values - ends[0]) / (ends[1] - ends[0])).clamp(0, 1)


def _quantiles(values: Tensor, group: Tensor, count: int, share: float) -> Tensor:
    """A quantile of the values of every group, ``(count,)``; infinite for empty ones."""
    order = values.argsort()
    order = order[group[order].argsort(stable=True)]
    size = torch.bincount(group, minlength=count)
    place = size.cumsum(0) - size + ((size - 1) * share).long()
    found = torch.full((count,), torch.inf, device=values.device)
    found[size > 0] = values[order[place[size > 0]]]
    return found


def keep_only(graph: Graph, kept: Tensor) -> Graph:
    """The graph with the kept entries ``(n, judged)`` only, in the rows that lost some."""
    rows = (~kept).any(1).nonzero()[:, 0]
    real = kept[rows]
    real[:, 0] |= ~real.any(1)  # never without a neighbour
    order = (~real).int().argsort(dim=1, stable=True)
    judged, width = real.shape[1], graph.k
    near = graph.indices[rows, :judged].gather(1, order)
    far = graph.distances[rows, :judged].gather(1, order)
    padding = torch.arange(width, device=graph.device) >= real.sum(1, keepdim=True)
    place = torch.where(padding, 0, torch.arange(width, device=graph.device).clamp_max(judged - 1))
    index, distance = graph.indices.clone(), graph.distances.clone()
    index[rows], distance[rows] = near.gather(1, place), far.gather(1, place)
    return replace(graph, indices=index, distances=distance)
