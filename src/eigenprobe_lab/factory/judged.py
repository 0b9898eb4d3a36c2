"""Clouds with the truth about their edges, which the short-cut network learns from.

    procedural shape, folded;   -> sparse sample, noise          -> graph -> suspects, ratio
    real mesh, refined          -> a few views of a scanner, with gaps where none sees it
    trees and wires             -> nothing in them is a short-cut: ratio 1

    loss = mean of  w BCE(z, sigmoid((ratio - r) / s)),     ratio: geodesic over chord on the dense
    shape; of a scan along what was seen of it

Batches are prepared in blocks, each seen several times in a new order; what a step sees depends on
the seed and the step alone.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from eigenprobe.cloud.edges import find_suspects
from eigenprobe.cloud.network import SUSPICION, ShortcutConfig, ShortcutNetwork, Suspects
from eigenprobe.neighbors.graph import Graph, build_graph

from ..shapes.contacts import FOLD, SPREAD, Fold, FoldedShapes, Spread, ratios, spread_rows
from ..shapes.dense import Dense, DenseShapes
from ..shapes.fields import Rng, take
from ..shapes.meshes import MeshShapes
from ..shapes.views import SCANNER, Scanner, clutter, scanned
from .blocks import Blocks
from .schedule import Schedule, TimedSettings


@dataclass(frozen=True)
class Clouds:
    """What to train on: ``chunk`` new shapes of ``dense`` points per block, the last ``chunks``
    kept.
    """

    chunk: int = 160
    chunks: int = 4
    dense: int = 9000
    points: int = 16_000  # per batch
    most: int = 32  # clouds per batch
    sources: int = 1600  # geodesic sources per batch
    sizes: tuple[int, ...] = (150, 250, 400, 500, 700, 1000, 1500, 1500, 2200, 4000)
    touching: float = 0.25
    fold: Fold = FOLD
    spread: Spread = SPREAD
    rendered: float = 0.5  # share of batches that are views of a scanner
    noisy: float = 0.5  # share of the other clouds with noise
    noise: float = 0.02  # largest, of the radius
    meshes: Path | None = None  # npz of real meshes, NAME/v and NAME/f
    real: float = 0.5  # share of batches of them, where they are given
    clutter: float = 0.05  # share of batches of trees and wires, where meshes are given
    meshes_chunk: int = 24  # meshes per block
    scanner: Scanner = SCANNER
    seen: bool = True  # a scan is judged by paths on what was seen, not on the whole mesh
    held_out: bool = False  # meshes that are not trained on


@dataclass(frozen=True)
class Loss:
    """``ratio`` above which an edge is a short-cut, ``soft`` the width of the transition, ``found``
    the extra weight of short-cuts."""

    ratio: float = 1.7
    soft: float = 0.15
    found: float = 5.0

    def __call__(self, z: Tensor, ratio: Tensor) -> Tensor:
        """Mean weighted cross-entropy of logits ``z (e,)`` over the edges whose ratio is known."""
        known = ratio >= 0
        target = torch.sigmoid((ratio - self.ratio) / self.soft)
        weight = (1 + self.found * (ratio > self.ratio)) * known
        each = binary_cross_entropy_with_logits(z, target, reduction="none")
        return (weight * each).sum() / known.sum().clamp_min(1)


@dataclass(frozen=True)
class NeighbourSettings(TimedSettings):
    """Everything about a run."""

    network: ShortcutConfig = field(default_factory=ShortcutConfig)
    clouds: Clouds = field(default_factory=Clouds)
    loss: Loss = field(default_factory=Loss)
    schedule: Schedule = field(
        default_factory=lambda: Schedule(optimiser="adamw", adam_rate=2e-3, cooldown=0.98)
    )
    block: int = 40
    passes: int = 6
    shipped: bool = False  # go on from the weights in the package


@dataclass
class Judged:
    """Suspects of a batch of clouds and the true ratio ``(e,)`` of their edges, -1 where it is not
    known.
    """

    suspects: Suspects
    ratio: Tensor


class ContactStream:
    """Suspicious clouds of shapes in contact, of real meshes, and of what has no surface, on the
    device where they are asked for.
    """

    def __init__(self, settings: NeighbourSettings) -> None:
        self.settings, self.device, self.rank = settings, torch.device("cpu"), 0
        self._begin()

    def _begin(self) -> None:
        s, c = self.settings, self.settings.clouds
        seed, most = s.seed * 64 + self.rank, max(c.sizes)
        self._blocks = Blocks[Judged](s.block, s.passes)
        self._meshes = None
        if c.meshes is not None:
            self._meshes = MeshShapes(
                c.meshes, seed, self.device, c.meshes_chunk, c.dense, most, c.chunks, c.held_out
            )
        shapes = DenseShapes(seed, self.device, touching=c.touching)
        self._shapes = FoldedShapes(shapes, c.chunk, c.dense, most, c.chunks, c.fold, c.spread)

    def to(self, device: torch.device | str, rank: int = 0) -> Self:
        """The stream on a device, as the process ``rank`` sees it: every process trains on shapes
        of its own.
        """
        here = (torch.device(device), rank)
        if here != (self.device, self.rank):
            self.device, self.rank = here
            self._begin()
        return self

    def at(self, step: int) -> Judged:
        """The batch of one step."""
        return self._blocks.at(step, self.prepare)

    @torch.no_grad()
    def prepare(self, block: int, place: int) -> Judged:
        s = self.settings
        for _ in range(20):
            number = s.seed * 1_000_003 + (block * s.block + place) * 64 + self.rank
            generator = torch.Generator(self.device).manual_seed(number % 2**62)
            place += s.block  # should the batch be empty
            coin = torch.Generator().manual_seed(block * 7919 + place)
            found = self._draw(block, coin, generator)
            if found is not None:
                return found
        raise RuntimeError("no suspicious clouds among the shapes")

    def _draw(self, block: int, coin: torch.Generator, generator: torch.Generator) -> Judged | None:
        """One batch, or None where there is nothing to judge."""
        c = self.settings.clouds
        chance = torch.rand(2, generator=coin).tolist()
        real = self._meshes is not None and chance[0] < c.real
        if self._meshes is not None and not real and chance[0] > 1 - c.clutter:
            m = c.sizes[int(torch.randint(len(c.sizes), (), generator=coin))]
            sparse = clutter(max(1, min(c.most, c.points // m)), m, generator)
            suspects, _ = suspects_of(sparse)
            if suspects is None:
                return None
            return Judged(suspects, torch.ones_like(suspects.pairs[:, 0]))
        source = self._meshes if real and self._meshes is not None else self._shapes
        m, shapes, graph, order = self._some(block, source, coin)
        points = shapes.points
        m = min(m, points.shape[1] // 2)
        if chance[1] < c.rendered:
            chosen, sparse, keep, seen = scanned(shapes, graph, m, generator, c.scanner)
            seen = seen | (not c.seen)
            both = seen[..., None] & take(seen[..., None], graph[0].flatten(1)).view(graph[0].shape)
            graph = graph[0], torch.where(both, graph[1], torch.inf)
            m = int(keep.sum(1).min())
            chosen, sparse = chosen[:, :m], sparse[:, :m]
        else:
            chosen = spread_rows(points, order, m, generator, c.spread)
            rng = Rng(len(points), generator)
            level = rng.uniform(0, c.noise, 1, 1) * rng.chance(c.noisy, 1, 1)
            sparse = take(points, chosen) + level * rng.normal(1, m, 3)
        if m <= SUSPICION.judged:
            return None  # few points are seen
        suspects, cloud = suspects_of(sparse)
        if suspects is None:
            return None
        return Judged(suspects, self._judge(suspects, cloud, points, graph, chosen, generator))

    def _some(
        self, block: int, source: FoldedShapes | MeshShapes, coin: torch.Generator
    ) -> tuple[int, Dense, tuple[Tensor, Tensor], Tensor]:
        """One of the sizes, and some shapes of the kept blocks with the links between their points
        and the order of their vertices: as many as make a batch when they are sampled at that size.
        """
        c = self.settings.clouds
        recent = max(0, block - int(torch.randint(source.kept, (), generator=coin)))
        shapes, graph, order = source.block(recent)
        m = c.sizes[int(torch.randint(len(c.sizes), (), generator=coin))]
        count = max(1, min(c.most, c.points // m))
        rows = torch.randperm(len(order), generator=coin)[:count].to(self.device)
        some = Dense(*(part[rows] for part in shapes))
        return m, some, (graph[0][rows], graph[1][rows]), order[rows]

    def _judge(
        self,
        s: Suspects,
        cloud: Graph,
        points: Tensor,
        graph: Any,
        chosen: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Ratios of the edges at some sources of every cloud, suspicious points before others."""
        b, m = chosen.shape
        count = min(m, max(16, self.settings.clouds.sources // b))
        weight = torch.full((b * m,), 0.2, device=points.device)
        weight[s.nodes] = torch.where(s.suspicious, 1.0, 0.2)
        sources = torch.multinomial(weight.view(b, m), count, generator=generator)  # (b, S)
        first = (m * torch.arange(b, device=points.device))[:, None, None]
        end = take(cloud.indices[:, : SUSPICION.judged].view(b, m, -1), sources)  # (b, S, k)
        start = sources[..., None] + first
        found = ratios(points, graph, chosen, sources, end - first)
        key = torch.minimum(start, end) * b * m + torch.maximum(start, end)
        known = s.nodes[s.edges.head] * b * m + s.nodes[s.edges.tail]
        at = torch.searchsorted(known, key).clamp_max(len(known) - 1)
        hit = known[at] == key
        ratio = torch.full((len(known),), -1.0, device=points.device)
        ratio[at[hit]] = found[hit]
        return ratio


def suspects_of(clouds: Tensor) -> tuple[Suspects | None, Graph]:
    """The suspects of clouds ``(b, m, 3)`` of one size, and their stacked graph."""
    b, m, _ = clouds.shape
    cloud = build_graph(clouds.flatten(0, 1), min(SUSPICION.judged, m - 1), clouds=(m,) * b)
    return find_suspects(cloud), cloud


@torch.no_grad()
def held_out(
    network: ShortcutNetwork, settings: NeighbourSettings, device: torch.device, batches: int = 6
) -> dict[str, float]:
    """Recall and false cuts at logits of 0, on shapes of another seed; where there are real meshes,
    on views of those that are not trained on, and false cuts of trees and wires, too.
    """
    clouds = replace(settings.clouds, chunk=min(48, settings.clouds.chunk), chunks=1)
    kinds = {"": replace(clouds, meshes=None)}
    if clouds.meshes is not None:
        own = replace(clouds, held_out=True, real=1.0, rendered=1.0, meshes_chunk=12)
        kinds |= {"views: ": own, "clutter: ": replace(own, real=0.0, clutter=1.0)}
    facts: dict[str, float] = {}
    for kind, each in kinds.items():
        how = replace(settings, seed=settings.seed + 1_000, block=batches, clouds=each)
        stream = ContactStream(how).to(device)
        found = [stream.at(i) for i in range(batches)]
        cut = torch.cat([network(batch.suspects) > 0 for batch in found])
        ratio = torch.cat([batch.ratio for batch in found])
        bad, good = ratio > settings.loss.ratio, (ratio >= 0) & (ratio <= settings.loss.ratio)
        shares = {"recall": cut[bad], "false": cut[good], "share": bad[ratio >= 0]}
        measured = {name: value for name, value in shares.items() if len(value)}
        facts |= {f"{kind}{name}": float(x.float().mean()) for name, x in measured.items()}
    return facts
