r"""Noisy samples of a surface moved back onto it, and strays recognised, by a small shipped network.

    y_i = x_i + s_i f_i,     z_i = logit of a stray,     s_i: distance from point i to its 8th neighbour
    o_ij = (x_j - x_i) / s_i,   g_ij = MLP(o_ij, |o_ij|, log s_j / s_i),   t_ij = P h_j . o_ij  (planes at j)
    a_ij = softmax_j(q_i . k_j + u_i . g_ij + b . |t_ij|),    h_i <- h_i + W sum_j a_ij (v_j, g_ij, t_ij) + ...

The neighbours ``j`` are the nearest points, and the nearest of every eighth point along a space-filling curve: noise
larger than the spacing shows only at a larger scale.  Products with edges are taken per point (``u_i``, ``W``), so that
a round costs little more than its gathers; the cost is linear in the number of points.  The cloud is turned to its
principal axes, and the answers for half turns about them are averaged: turning the cloud turns the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..host.weights import read_weights, write_weights
from ..search.layout import Segments, morton_order
from ..search.neighbours import nearest_rows, without_self

SHIPPED = Path(__file__).parent / "weights"  # of the network that comes with the package
UNIT = 8  # neighbour whose distance is the unit of length at a point
STRIDE = 8  # points of the cloud per point of the coarse level
LEAST = 64  # points of a cloud that can be cleaned
BLOCK = 1 << 7  # points whose neighbours are attended to together on a host: in its cache
KEPT = 1 << 18  # points up to which encoded edges are kept from round to round
MOVED = 0.9  # quantile of the moves that judges a cloud: of scans that are off by some, part of the points is clean
QUIET = (0.05, 0.1)  # that move, in units, up to which a cloud is clean (detail has .03); from which it is noisy
FAR = 8.0  # offsets beyond so many units are all alike
APART = 5.0  # between the centres of clouds of radius 1 that are searched together
NOT_A_STRAY = -20.0  # logit of points that are not judged
HALF_TURNS = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))  # about the principal axes


@dataclass(frozen=True)
class CleaningConfig:
    """Sizes of a `CleaningNetwork`."""

    width: int = 96  # channels of points
    edge: int = 32  # channels of edges
    planes: int = 8
    rounds: int = 5
    heads: int = 4
    near: int = 24  # nearest neighbours
    far: int = 16  # neighbours in the coarse level


class Neighbourhood(NamedTuple):
    """Neighbours ``j`` of some points ``i``: ``rows (m, k)``, ``offset (m, k, 3)``, encoded ``edges (m, k, e)``."""

    rows: Tensor
    offset: Tensor
    edges: Tensor


class CleaningNetwork(nn.Module):
    """Offsets to the surface and logits of strays; `config` rebuilds it."""

    def __init__(self, config: CleaningConfig | None = None) -> None:
        super().__init__()
        self.config = c = config or CleaningConfig()
        self.encode_edge = nn.Sequential(nn.Linear(5, 2 * c.edge), nn.GELU(), nn.Linear(2 * c.edge, c.edge))
        self.encode_point = nn.Sequential(nn.Linear(2 * c.edge, c.width), nn.GELU(), nn.Linear(c.width, c.width))
        self.rounds = nn.ModuleList(_Round(c) for _ in range(c.rounds))
        self.norm, self.out = nn.LayerNorm(c.width), nn.Linear(c.width, 4)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, found: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Offsets in units ``(n, 3)``, logits and units ``(n,)`` of points ``(n, 3)``; clouds lie `APART`.

        ``found`` is what `search` found.
        """
        index, unit = found or self.search(x)
        blocks = torch.arange(len(x), device=x.device).split(BLOCK << 10 if x.is_cuda else BLOCK)
        kept = [self._around(x, unit, index, rows) for rows in blocks] if len(x) <= KEPT else None
        around = partial(self._around, x, unit, index)

        def each() -> Iterable[Neighbourhood]:
            return kept or (around(rows) for rows in blocks)

        pooled = [torch.cat([block.edges.amax(1), block.edges.mean(1)], 1) for block in each()]
        h = self.encode_point(torch.cat(pooled))
        for layer in self.rounds:
            h = layer(h, each())
        y = self.out(self.norm(h)).float()
        return y[:, :3], y[:, 3], unit

    @torch.no_grad()
    def search(self, x: Tensor, coarse: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Neighbours ``(n, near + far)`` and the unit of length ``(n,)`` at every point; ``coarse`` rows, if known."""
        coarse = morton_order(x)[::STRIDE].contiguous() if coarse is None else coarse
        with torch.autocast(x.device.type, enabled=False):
            near, distance = without_self(*nearest_rows(x, x, self.config.near + 1))
            far = coarse[nearest_rows(x[coarse], x, self.config.far)[0]]
        return torch.cat([near, far], 1), distance[:, UNIT - 1].to(x.dtype).clamp_min(1e-6)

    def _around(self, x: Tensor, unit: Tensor, index: Tensor, rows: Tensor) -> Neighbourhood:
        near, own = index[rows], unit[rows, None]
        offset = ((x[near] - x[rows, None]) / own[..., None]).clamp(-FAR, FAR)
        relative = (unit[near] / own).log().clamp(-FAR, FAR)
        edges = torch.cat([offset, offset.norm(dim=2)[..., None], relative[..., None]], 2)
        return Neighbourhood(near, offset, self.encode_edge(edges))


class _Round(nn.Module):
    """Attention to the neighbours and a perceptron, each added."""

    def __init__(self, c: CleaningConfig) -> None:
        super().__init__()
        self.heads, self.sizes = c.heads, [c.width, c.width, 3 * c.planes]
        self.norm, self.plane = nn.LayerNorm(c.width), nn.Linear(c.planes, c.heads)
        self.query, self.memory = nn.Linear(c.width, c.width + c.heads * c.edge), nn.Linear(c.width, sum(self.sizes))
        self.out = nn.Linear(c.width + c.heads * (c.edge + c.planes), c.width)
        self.feedforward = nn.Sequential(
            nn.LayerNorm(c.width), nn.Linear(c.width, 2 * c.width), nn.GELU(), nn.Linear(2 * c.width, c.width)
        )

    def forward(self, h: Tensor, blocks: Iterable[Neighbourhood]) -> Tensor:
        y, first = self.norm(h), 0
        memory, query, mixed = self.memory(y), self.query(y), []
        for block in blocks:
            mixed.append(self._attend(query[first : first + len(block.rows)], memory, block))
            first += len(block.rows)
        h = h + self.out(torch.cat(mixed))
        return h + self.feedforward(h)

    def _attend(self, query: Tensor, memory: Tensor, block: Neighbourhood) -> Tensor:
        (m, k), g = block.rows.shape, block.edges
        # `index_select`, not brackets: their gradient sorts the indices.
        found = memory.index_select(0, block.rows.flatten()).unflatten(0, (m, k))
        key, value, plane = found.split(self.sizes, 2)
        q, u = query.split([self.sizes[0], query.shape[1] - self.sizes[0]], 1)
        t = (plane.unflatten(2, (-1, 3)) * block.offset[:, :, None]).sum(3).to(g.dtype)  # (m, k, planes)
        logits = (q[:, None] * key).unflatten(2, (self.heads, -1)).sum(3) * (self.heads / self.sizes[0]) ** 0.5
        logits = logits + g @ u.unflatten(1, (self.heads, -1)).mT / g.shape[2] ** 0.5 + self.plane(t.abs())
        a = logits.float().softmax(1).to(g.dtype)  # (m, k, heads)
        mixed = (a[..., None] * value.unflatten(2, (self.heads, -1))).sum(1).flatten(1)
        return torch.cat([mixed, (a.mT @ torch.cat([g, t], 2)).flatten(1)], 1)


def write_cleaning(folder: Path, network: CleaningNetwork, facts: dict[str, Any]) -> None:
    """Save a network as float16 with its sizes and the facts of its training."""
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, network, asdict(network.config), facts)


@cache
def read_cleaning(folder: Path = SHIPPED) -> CleaningNetwork:
    """Load what `write_cleaning` wrote, on the host; by default the network of the package."""
    network = read_weights(folder, CleaningConfig, CleaningNetwork, "the weights of a cleaning network")[0]
    return network.eval().requires_grad_(False)


@cache
def _on(device: torch.device) -> CleaningNetwork:
    return deepcopy(read_cleaning()).to(device)


def apart(count: int, device: torch.device) -> Tensor:
    """Centres ``(count, 3)`` of clouds of radius 1 that are searched together."""
    number, side = torch.arange(count, device=device), int(count ** (1 / 3)) + 1
    return APART * torch.stack([number % side, number // side % side, number // side**2], 1)


@torch.no_grad()
def clean(
    points: Tensor,
    clouds: tuple[int, ...] = (),
    passes: int = 2,
    views: int = 2,
    network: CleaningNetwork | None = None,
) -> tuple[Tensor, Tensor]:
    """Points ``(n, 3)`` moved onto the surface that they are noisy samples of, and the logit of being a stray ``(n,)``.

    ``clouds`` are the sizes of several stacked ones.  Points of other dimensions and clouds of fewer than `LEAST`
    points come back as they are, and so do those of a cloud without noise (`QUIET`).  The answer depends on the points
    alone, not on their order, unit or pose.  ``views`` of at most four half turns are averaged.
    """
    own = Segments(clouds or (len(points),), points.device)
    if points.ndim != 2 or points.shape[1] != 3 or min(own.sizes) < LEAST:
        return points, points.new_full((len(points),), NOT_A_STRAY)
    network = network or _on(points.device)
    centre, parts = own.mean(points.double()), points.double().split(own.sizes)
    # Principal axes first, then the order of a curve along them: neither the pose nor the order of the points matters.
    parts = [part - middle for part, middle in zip(parts, centre)]
    axes = torch.stack([_principal(part) for part in parts])
    scale = torch.stack([part.norm(dim=1).max() for part in parts]).clamp_min(1e-300)[:, None, None]
    parts = [part @ turn / size for part, turn, size in zip(parts, axes, scale)]
    orders = [morton_order(part) for part in parts]
    order = torch.cat([first + rows for first, rows in zip(own.first, orders)])
    strides = [min(STRIDE, len(part) // (4 * network.config.far)) for part in parts]
    rows = [torch.arange(0, n, s, device=order.device) for n, s in zip(own.sizes, strides)]
    coarse = torch.cat([first + each for first, each in zip(own.first, rows)])
    start = x = torch.cat(parts)[order]
    place, share, logits = own.spread(apart(len(own), x.device)), x.new_zeros(len(own)), x.new_zeros(len(x))
    for turn in range(passes):
        step, found = torch.zeros_like(x), network.search((x + place).float(), coarse)
        for signs in x.new_tensor(HALF_TURNS[:views]):
            offset, z, unit = network(((x + place) * signs).float(), found)
            step, logits = step + offset * signs / views, logits + (z / views if turn == 0 else 0)
        if turn == 0:
            level = torch.stack([_quantile(part.norm(dim=1), MOVED) for part in step.split(own.sizes)])
            share = ((level - QUIET[0]) / (QUIET[1] - QUIET[0])).clamp(0, 1)
            if not bool(share.any()):
                break
        x = x + step * unit[:, None]
    moved = own.spread(share)[:, None] * (x - start)
    moved = ((moved[:, None] @ own.spread(axes.mT)) * own.spread(scale))[:, 0]
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return (points + moved[back]).to(points.dtype), logits[back].to(points.dtype)


def _quantile(x: Tensor, share: float) -> Tensor:
    """That of values ``(n,)``; `torch.quantile` takes 16 million of them at most."""
    return x.kthvalue(max(1, round(share * len(x)))).values


def _principal(x: Tensor) -> Tensor:
    """Principal axes ``(3, 3)`` of centred points, in columns, right-handed; their third moments are positive."""
    axes = torch.linalg.eigh(x.T @ x)[1]
    axes = axes * torch.where((x @ axes).pow(3).sum(0) < 0, -1.0, 1.0)
    axes[:, 2] *= torch.linalg.det(axes).sign()
    return axes
