"""Which neighbours are real: the shipped network judges the suspicious edges of a graph, and
short-cuts are cut.

    graph (n, k) -> suspects -> logits (e,) -> edges above the threshold are cut -> graph without
    them

A short-cut is an exception: the threshold is higher by twice what the median logit of a cloud is
above that of surfaces.

A row that lost neighbours keeps the real ones among those that were judged and repeats its nearest
one to the end. Cuts that would split off a part are undone at the half of its edges that the
network was less sure of, unless it is sure of nearly all edges round the part, which are then all
cut: a wrong split adds a vanishing eigenvalue and moves every vector after it.

What tells a short-cut from a real neighbour: where to look, and what is seen there.

    suspicious   the nearest 18 of a point do not lie on one quadric over their plane:
                 rms residual of  z ~ (1, u, v, u^2, uv, v^2)  above a share of the spacing
    looked at    suspicious points with a few strongly suspicious ones among themselves and their
                 neighbours
    edges        all undirected edges of the graph with an end that is looked at, (e,)
    inputs       numbers that no rotation, scale or order of the points changes:
                 points (a, NODE), edges (e, EDGE)

Points that are plainly fine cost one 3 x 3 eigenproblem.  Stacked clouds (`Graph.clouds`) are
handled at once; every statistic is taken on its own cloud.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError
from ..neighbors.graph import (
    Edges,
    Graph,
    components,
    estimate_dimension,
    local_spacing,
    undirected,
)
from ..neighbors.layout import Segments, canonical_pose, principal_axes
from .cloud import CloudGraph
from .farthest import farthest_points
from .network import SHIPPED, SUSPICION, ShortcutNetwork, Suspects, Suspicion, read_shortcut
from .quadrics import without_noise


@dataclass(frozen=True)
class Decision:
    """When an edge is cut; chosen on development shapes."""

    threshold: float = 1.5  # logit above which an edge is a short-cut
    # the same where most points are suspicious: coarse and noisy clouds have more short-cuts ...
    bold: float = 0.0
    # ... by the share of such points, from the one to the other
    doubtful: tuple[float, float] = (0.1, 0.6)
    # median logit of the judged edges of a surface; where it is higher, as on trees and streets,
    # the network finds most edges odd, and none is an exception
    usual: float = -2.0
    excess: float = 2.0  # how many times what it is higher by is added to the threshold
    # tenth percentile of the logits round a part above which it may be split off ...
    sure: float = 2.2
    part: int = 20  # ... if it has at least so many points
    near: int = 4  # real neighbours of each point that must hold the cloud together


DECISION = Decision()


@cache
def shipped() -> ShortcutNetwork:
    """The network that comes with the package, on the host."""
    return read_shortcut(SHIPPED).eval().requires_grad_(False)


Neighbours = Literal["learned", "plain"] | int


def without_short_cuts(
    cloud: CloudGraph, neighbours: Neighbours | None = None, dimension: float | None = None
) -> tuple[CloudGraph, float]:
    """The cloud with the short-cuts cut from its graph and its noise removed, and its dimension;
    `"learned"` is the default.

    Only surfaces in three dimensions are judged: a number of neighbours, `"plain"`, another metric
    and any other dimension leave the graph as it is.
    """
    if isinstance(neighbours, str) and neighbours not in ("learned", "plain"):
        raise InputError(
            f"neighbours must be 'learned', 'plain' or a whole number, got {neighbours!r}"
        )
    graph = cloud.graph
    dimension = estimate_dimension(graph) if dimension is None else dimension
    surface = graph.metric == "euclidean" and graph.points.shape[1] == 3 and round(dimension) == 2
    if not surface or graph.k < SUSPICION.judged:
        return cloud, dimension
    pairs = None
    if neighbours in (None, "learned"):
        graph, pairs = real_neighbours(graph)
    graph, level = without_noise(graph)
    noise = float(level.amax()) ** 0.5
    return replace(cloud, graph=graph, short_cuts=pairs, noise=noise), dimension


@torch.no_grad()
def real_neighbours(graph: Graph, network: ShortcutNetwork | None = None) -> tuple[Graph, Tensor]:
    """The graph without its short-cuts, and the edges ``(c, 2)`` that were cut, as rows of the
    graph.
    """
    suspects = find_suspects(graph)
    if suspects is None:
        return graph, torch.empty((0, 2), dtype=torch.int64, device=graph.device)
    network = shipped() if network is None else network
    if next(network.parameters()).device != graph.device:
        network = network.to(graph.device)
    with torch.inference_mode():
        logits = network(suspects)
    cut = decide(graph, suspects, logits)
    ends = torch.stack([suspects.edges.head[cut], suspects.edges.tail[cut]], 1)
    return keep_only(graph, _kept(suspects.entry, cut)), suspects.nodes[ends]


def _kept(entry: Tensor, cut: Tensor) -> Tensor:
    """Which entries ``(n, judged)`` are real: -1 finds the last of all, which was not judged."""
    return ~torch.cat([cut, cut.new_zeros(1)])[entry]


def decide(
    graph: Graph, suspects: Suspects, logits: Tensor, decision: Decision = DECISION
) -> Tensor:
    """Which of the judged edges ``(e,)`` are cut."""
    head, tail = suspects.nodes[suspects.edges.head], suspects.nodes[suspects.edges.tail]
    owner = suspects.owner[suspects.edges.head]
    cut = logits > _thresholds(graph, suspects, logits, decision)[owner]
    entry = suspects.entry
    rows = torch.arange(graph.n, device=graph.device)[:, None].expand_as(entry)
    settled = torch.zeros_like(cut)  # round parts that may be split off
    for _ in range(int(cut.sum())):  # every round restores an edge, or splits off a part for good
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
    return cut


def _thresholds(graph: Graph, suspects: Suspects, logits: Tensor, decision: Decision) -> Tensor:
    """The logit above which edges of every cloud are cut, ``(b,)``."""
    suspicious = torch.bincount(suspects.owner[suspects.suspicious], minlength=len(graph.each))
    low, high = decision.doubtful
    share = ((suspicious / graph.each.counts - low) / (high - low)).clamp(0, 1)
    owner = suspects.owner[suspects.edges.head]
    middle = _quantiles(logits, owner, len(graph.each), 0.5)
    threshold = decision.threshold + (decision.bold - decision.threshold) * share
    return threshold + decision.excess * (middle - decision.usual).clamp_min(0)


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
    near, far = graph.indices[rows].gather(1, order), graph.distances[rows].gather(1, order)
    place = torch.arange(graph.k, device=graph.device)
    place = torch.where(place < real.sum(1, keepdim=True), place, 0)
    index, distance = graph.indices.clone(), graph.distances.clone()
    index[rows], distance[rows] = near.gather(1, place), far.gather(1, place)
    return replace(graph, indices=index, distances=distance)


CANDIDATES = 2000  # of which landmarks are chosen: those are three times as far apart
SCALES = (7, 12, 18)  # neighbours of the three local covariances


@torch.no_grad()
def find_suspects(graph: Graph, settings: Suspicion = SUSPICION) -> Suspects | None:
    """The suspicious part of a Euclidean graph in three dimensions, or None where there is none."""
    graph = graph.truncate(settings.judged)
    x, index = graph.points.float(), graph.indices
    clouds = graph.each
    distance = graph.distances.float().clamp_min(1e-12)
    offsets = (
        (x.index_select(0, index.flatten()).view(*index.shape, 3) - x[:, None])
        .permute(2, 0, 1)
        .contiguous()
    )
    # offsets (3, n, k)
    variance, axes = _spectrum(_products(offsets - offsets.mean(2, keepdim=True)).sum(2))
    spacing = local_spacing(index, distance)
    thick = variance[:, 0] > settings.flat * variance[:, 2]
    residual = torch.zeros_like(spacing)
    rows = thick.nonzero()[:, 0]
    if not len(rows):
        return None
    residual[rows] = _quadric_residual(offsets[:, rows], axes[rows]) / spacing[rows]
    suspicious, strong = residual > settings.residual, residual > settings.strong
    looked = suspicious & (strong + strong[index].sum(1) >= settings.together)
    if not bool(looked.any()):
        return None
    landmarks = _landmarks(x, clouds, settings.landmarks)  # (b, L)
    involved = looked.clone()
    involved[index[looked].reshape(-1)] = True
    # (n, k): both ends are involved, one is looked at
    ends = looked[:, None] | (looked[index] & involved[:, None])
    edges, entry = undirected(index, ends)
    involved[landmarks.reshape(-1)] = True
    nodes = involved.nonzero()[:, 0]
    place = torch.full((graph.n,), -1, dtype=torch.int64, device=x.device)
    place[nodes] = torch.arange(len(nodes), device=x.device)
    owner = clouds.owner[nodes]
    rank = torch.arange(index.shape[1], device=x.device).expand_as(index)[ends]
    ranks = torch.full((2, len(edges)), float(index.shape[1]), device=x.device)
    ranks[0].scatter_reduce_(0, entry, rank.float(), "amin")
    ranks[1].scatter_reduce_(0, entry, rank.float(), "amax", include_self=False)
    once = torch.bincount(entry, minlength=len(edges)) == 1  # absent from the other end's list
    ranks[1][once] = 1.2 * index.shape[1]

    h, share = spacing[nodes, None], torch.ones_like(spacing) / clouds.spread(clouds.counts)
    pose = canonical_pose(clouds.padded(x), clouds.padded(share))  # (b, 4, 3)
    size = pose[:, :3].norm(dim=1).amax(1).reciprocal()[owner, None]  # root mean square
    turn = pose[owner]
    scales = [count - 1 for count in SCALES]
    sums = _products(offsets.index_select(1, nodes)).cumsum(2)[..., scales].flatten(1)
    variance, axes = _spectrum(sums)  # (a 3, 3): every scale of every point
    normals = axes[..., 0].unflatten(0, (len(nodes), -1))  # (a, scales, 3)
    own = (normals[:, 1, None] @ turn[:, :3])[:, 0] * size
    i, j = torch.triu_indices(3, 3, device=x.device)
    local = (x[nodes, None] @ turn[:, :3])[:, 0] + turn[:, 3]  # canonical coordinates
    points = [
        (variance[:, :2] / variance[:, 2:].clamp_min(1e-20)).reshape(len(nodes), -1),
        distance[nodes][:, [0, 2, 5, 10, -1]] / h,
        residual[nodes, None].clamp_max(3),
        suspicious[nodes, None].float(),
        (h / size).log(),
        h.log() - clouds.mean(spacing.log())[owner, None],
        own[:, i] * own[:, j],
        local,
        *(wave(times * local) for times in (3, 6) for wave in (torch.sin, torch.cos)),
    ]

    head, tail = edges.head, edges.tail
    chord = x.index_select(0, tail) - x.index_select(0, head)
    d = chord.norm(dim=1).clamp_min(1e-12)
    here, there = spacing[head], spacing[tail]
    gap, detour, common = _between(x, index, offsets, distance, edges, d)
    normals = normals.permute(2, 0, 1)
    first, second = (normals.index_select(1, place[end]) for end in (head, tail))  # (3, e, scales)
    unit = (chord / d[:, None]).mT[..., None]
    low, high = _sorted((first * unit).sum(0).abs(), (second * unit).sum(0).abs())  # (e, scales)
    angles = torch.stack([(first * second).sum(0).abs(), low, high], 2).flatten(1)
    tilt = (high * (d / (here * there).sqrt())[:, None]).clamp_max(6)
    # What differs between the two ends enters as the smaller and the larger of both.
    apart = _sorted(d / here, d / there)
    pairs = [*apart, (here / there).log().abs(), *(ranks / index.shape[1]), gap, detour]
    return Suspects(
        nodes,
        Edges(place[head], place[tail], len(nodes)),
        ranks[0] < settings.message,
        torch.cat(points, 1),
        torch.cat([torch.stack(pairs, 1), common.mT, angles, tilt], 1),
        owner,
        place[landmarks],
        torch.full_like(index, -1).masked_scatter_(ends, entry),
    )


def _between(
    x: Tensor, index: Tensor, offsets: Tensor, distance: Tensor, edges: Edges, d: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """How empty the middle of every edge is, the best detour by one neighbour, and the shares ``(3,
    e)`` of common neighbours.

    With o to a neighbour and c to the other end, |o - c/2|^2 and |o - c|^2 follow from |o|^2 and
    o.c.
    """
    gap, detour = torch.empty_like(d), torch.empty_like(d)
    common = torch.empty((3, len(d)), device=d.device)
    table = torch.cat([offsets, distance.square()[None]]).transpose(0, 1).flatten(1)  # (n, 4 k)
    lists = index.mT.contiguous()  # (k, n)
    for part in torch.arange(len(d), device=d.device).split(1 << 14):
        far2, ends = d[part].square(), (edges.head[part], edges.tail[part])
        chord = x.index_select(0, ends[1]) - x.index_select(0, ends[0])
        middle = way = 9 * far2
        for start, end, along in zip(ends, ends[::-1], (chord, -chord), strict=True):
            # (e, k)
            *components, near2 = table.index_select(0, start).unflatten(1, (4, -1)).unbind(1)
            dot = torch.zeros((), device=d.device)
            for offset, component in zip(components, along.unbind(1), strict=True):
                dot = torch.addcmul(dot, offset, component[:, None])
            near2.masked_fill_(index.index_select(0, start) == end[:, None], torch.inf)
            middle = torch.minimum(middle, (near2 - dot).amin(1) + far2 / 4)
            around = torch.maximum(near2, near2 - 2 * dot + far2[:, None])
            way = torch.minimum(way, around.amin(1))
        gap[part], detour[part] = (value.clamp_min(0).sqrt_() / d[part] for value in (middle, way))
        one, other = (lists.index_select(1, end) for end in ends)
        same = one[:, None] == other  # (k, k, e)
        for row, count in enumerate(SCALES):
            common[row, part] = same[:count, :count].sum((0, 1), dtype=torch.uint8) / count
    return gap, detour, common


def _sorted(first: Tensor, second: Tensor) -> list[Tensor]:
    return [torch.minimum(first, second), torch.maximum(first, second)]


def _products(offsets: Tensor) -> Tensor:
    """The six products ``(6, n, k)`` of coordinates of neighbours ``(3, n, k)``."""
    x, y, z = offsets
    return torch.stack([x * x, y * y, z * z, x * y, x * z, y * z])


def _spectrum(products: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending variances ``(n, 3)``, of their sum, and axes ``(n, 3, 3)`` of sums of products
    ``(6, n)``.
    """
    products = products.double() / products[:3].double().sum(0).clamp_min(1e-30)
    variance, axes = principal_axes(products[[0, 3, 4, 3, 1, 5, 4, 5, 2]].mT.unflatten(1, (3, 3)))
    return variance.clamp_min(0).float(), axes.float()


def _quadric_residual(offsets: Tensor, axes: Tensor) -> Tensor:
    """Root mean square distance ``(n,)`` of neighbours ``(3, n, k)`` from the best quadric over
    their plane.
    """
    scale = offsets.square().sum(0).amax(1).sqrt().clamp_min(1e-30)
    z, v, u = ((axes.permute(2, 1, 0) / scale)[..., None] * offsets).sum(1)  # (n, k)
    terms = torch.stack([torch.ones_like(u), u, v, u * u, u * v, v * v, z], 1)  # (n, 7, k)
    products = terms @ terms.mT
    ridge = 1e-4 * torch.eye(6, device=z.device)
    weights = torch.linalg.solve(products[:, :6, :6] + ridge, products[:, :6, 6:])
    return (z - (weights * terms[:, :6]).sum(1)).square().mean(1).sqrt() * scale


def _landmarks(x: Tensor, clouds: Segments, count: int) -> Tensor:
    """Rows ``(b, L)`` of far-apart points of every cloud, from a regular subset: the same alone and
    in a stack.
    """
    count = min(count, *clouds.sizes)
    if len(clouds) == 1:
        step = max(1, len(x) // CANDIDATES)
        # a thousand launches on a device
        return step * farthest_points(x[::step].cpu(), count)[None].to(x.device)
    every = (clouds.counts // CANDIDATES).clamp_min(1)
    inside = torch.arange(len(x), device=x.device) - clouds.first[clouds.owner]
    offered = clouds.padded((inside % every[clouds.owner] == 0).to(x.dtype)) > 0
    valid = None if clouds.equal and clouds.most < 2 * CANDIDATES else offered
    return farthest_points(clouds.padded(x), count, valid=valid) + clouds.first[:, None]
