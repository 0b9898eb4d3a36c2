"""Training of the short-cut network on procedural shapes in contact, bent and thin, sparse and noisy.

    dense shape -> sparse sample (even, independent, uneven or as vertices lie), noise -> graph -> suspects -> logits z
                -> scan, damaged, cleaned, averaged (as `decompose` does)              ->
    loss = mean of  w BCE(z, sigmoid((ratio - r) / s)),     ratio: geodesic over chord on the dense shape

Batches are prepared in blocks, each seen several times in a new order; what a step sees depends on the seed and the
step alone.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from eigenprobe.geometry import farthest_points
from eigenprobe.graph import Graph, stack
from eigenprobe.host.weights import drawing
from eigenprobe.sampling.cleaning import clean
from eigenprobe.sampling.working import RULE
from eigenprobe.search.layout import nearest
from eigenprobe.shortcuts.cuts import find_suspects, shipped
from eigenprobe.shortcuts.network import SUSPICION, ShortcutConfig, ShortcutNetwork, Suspects, write_shortcut
from eigenprobe.training import RunSettings
from eigenprobe.training.recipes import recipe_kind

from ..shapes.contacts import FOLD, SPREAD, Fold, FoldedShapes, Spread, ratios, spread_rows
from ..shapes.damage import Damage, damaged
from ..shapes.dense import DenseShapes
from ..shapes.fields import Rng, take
from .blocks import FoldedSettings, FoldedStream
from .timed import Schedule, TimedModule, train_timed

SCANNED = Damage(strays=0.0, shifted=0.35, voxels=0.25)


@dataclass(frozen=True)
class Clouds:
    """What to train on: ``chunk`` new shapes of ``dense`` points per block, the last ``chunks`` kept."""

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
    worked: float = 0.35  # share of batches of damaged clouds, cleaned and averaged as `decompose` does
    finer: tuple[int, ...] = (1, 1, 2, 4)  # points of these before they are averaged, per point after
    damage: Damage = SCANNED
    noisy: float = 0.5  # share of the other clouds with noise
    noise: float = 0.02  # largest, of the radius


@dataclass(frozen=True)
class Loss:
    """``ratio`` above which an edge is a short-cut, ``soft`` the width of the transition, ``found`` the extra weight of
    short-cuts."""

    ratio: float = 1.7
    soft: float = 0.15
    found: float = 5.0


@dataclass(frozen=True)
class NeighbourSettings(FoldedSettings):
    """Everything about a run."""

    network: ShortcutConfig = field(default_factory=ShortcutConfig)
    clouds: Clouds = field(default_factory=Clouds)
    loss: Loss = field(default_factory=Loss)
    schedule: Schedule = field(default_factory=lambda: Schedule(optimiser="adamw", adam_rate=2e-3, cooldown=0.98))
    block: int = 40
    passes: int = 6
    shipped: bool = False  # go on from the weights in the package


@dataclass
class Judged:
    """Suspects of a batch of clouds and the true ratio ``(e,)`` of their edges, -1 where it is not known."""

    suspects: Suspects
    ratio: Tensor


class ContactStream(FoldedStream[Judged]):
    """Suspicious clouds of shapes in contact."""

    settings: NeighbourSettings

    def folded(self) -> FoldedShapes:
        c = self.settings.clouds
        shapes = DenseShapes(self.settings.seed * 64 + self.rank, self.device, touching=c.touching)
        return FoldedShapes(shapes, c.chunk, c.dense, max(c.sizes), c.chunks, c.fold, c.spread)

    @torch.no_grad()
    def prepare(self, block: int, place: int) -> Judged:
        c = self.settings.clouds
        for _ in range(20):
            generator = torch.Generator(self.device).manual_seed(
                (self.settings.seed * 1_000_003 + (block * self.settings.block + place) * 64 + self.rank) % 2**62
            )
            place += self.settings.block  # should the batch be empty
            coin = torch.Generator().manual_seed(block * 7919 + place)
            m, shapes, graph, order = self.draw(block, c.sizes, c.points, coin, c.most)
            points = shapes.points
            if float(torch.rand((), generator=coin)) < c.worked:
                finer = c.finer[int(torch.randint(len(c.finer), (), generator=coin))]
                chosen, sparse = cleaned_scan(points, shapes.normals, order, m, finer, c.damage, generator)
            else:
                chosen, rng = spread_rows(points, order, m, generator, c.spread), Rng(len(points), generator)
                level = rng.uniform(0, c.noise, 1, 1) * rng.chance(c.noisy, 1, 1)
                sparse = take(points, chosen) + level * rng.normal(1, m, 3)
            if sparse.shape[1] <= SUSPICION.judged:
                continue  # coarse voxels leave few points
            suspects, cloud = suspects_of(sparse)
            if suspects is not None:
                return Judged(suspects, self._judge(suspects, cloud, points, graph, chosen, generator))
        raise RuntimeError("no suspicious clouds among the procedural shapes")

    def _judge(
        self, s: Suspects, cloud: Graph, points: Tensor, graph: Any, chosen: Tensor, generator: torch.Generator
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


@torch.no_grad()
def cleaned_scan(
    points: Tensor, normals: Tensor, order: Tensor, m: int, finer: int, damage: Damage, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Rows ``(b, m)`` of dense points ``(b, N, 3)`` and where a scan of them is after cleaning, ``(b, m, 3)``.

    A scan of ``finer m`` points is thinned to the ``m`` farthest, each the mean of its cell.  Voxels may leave fewer.
    """
    chosen, y, _, keep = damaged(points, normals, order, min(finer * m, points.shape[1] // 2), damage, generator)
    y[keep] = clean(y[keep], tuple(keep.sum(1).tolist()))[0]
    m = min(m, int(keep.sum(1).min()))
    rows = farthest_points(y, m, start=0, valid=keep)
    seeds = take(y, rows)
    z = seeds.clone()
    if finer > 1:
        for i, own in enumerate(keep):
            x = y[i, own]
            for _ in range(RULE.rounds):
                cell = torch.cdist(x, z[i]).argmin(1)
                count = torch.bincount(cell, minlength=m)[:, None]
                total = torch.zeros_like(z[i]).index_add_(0, cell, x)
                z[i] = torch.where(count > 0, total / count.clamp_min(1), seeds[i])
    return chosen.gather(1, rows), z


def suspects_of(clouds: Tensor) -> tuple[Suspects | None, Graph]:
    """The suspects of clouds ``(b, m, 3)`` of one size, and their stacked graph."""
    distance, index = nearest(clouds, min(SUSPICION.judged, clouds.shape[1] - 1))
    graphs = [Graph(x, i, d) for x, i, d in zip(clouds, index, distance, strict=True)]
    cloud = stack(graphs)
    return find_suspects(cloud), cloud


class NeighbourModule(TimedModule):
    """The short-cut network, its loss and its schedule."""

    settings: NeighbourSettings

    def __init__(self, settings: NeighbourSettings) -> None:
        with drawing(settings.seed):
            network = deepcopy(shipped()) if settings.shipped else ShortcutNetwork(settings.network)
        super().__init__(network.train().requires_grad_(True), settings)

    def judged_loss(self, batch: Judged) -> Tensor:
        """Mean weighted cross-entropy over the edges whose ratio is known."""
        how, ratio = self.settings.loss, batch.ratio
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            z = self.network(batch.suspects)
        known = ratio >= 0
        target = torch.sigmoid((ratio - how.ratio) / how.soft)
        weight = (1 + how.found * (ratio > how.ratio)) * known
        return (weight * binary_cross_entropy_with_logits(z, target, reduction="none")).sum() / known.sum().clamp_min(1)

    def training_step(self, item: Any, batch_idx: int) -> Tensor:
        batch = cast(ContactStream, item).to(self.device, self.rank).at(self.batches_seen)
        if not self.batches_seen and not self.settings.shipped:
            cast(ShortcutNetwork, self.network).normalise_by(batch.suspects)
        return self.count_batch({"loss": self.judged_loss(batch)})


@recipe_kind("neighbours", NeighbourSettings, ("minutes", "piece", "steps"))
def train_neighbours(settings: NeighbourSettings, folder: Path, how: RunSettings | None = None, **changes: Any) -> Path:
    """Run (or go on with) training in `folder`; returns the folder of the exported network. ``changes`` are fields of
    `RunSettings`: device, resume, flags."""
    module = NeighbourModule(settings)
    trainer, facts = train_timed(module, ContactStream(settings), how, folder=folder, **changes)
    network = cast(ShortcutNetwork, module.eval().network)
    facts |= {"held out": held_out(network, settings, module.device), "history": module.history[-200:]}
    if trainer.is_global_zero:
        write_shortcut(folder / "model", network.cpu(), facts)
    return folder / "model"


@torch.no_grad()
def held_out(
    network: ShortcutNetwork, settings: NeighbourSettings, device: torch.device, batches: int = 6
) -> dict[str, float]:
    """Recall and false cuts at logits of 0, on shapes of another seed."""
    clouds = replace(settings.clouds, chunk=min(48, settings.clouds.chunk), chunks=1)
    own = replace(settings, seed=settings.seed + 1_000, block=batches, workers=0, clouds=clouds)
    stream = ContactStream(own).to(device)
    found = [stream.at(i) for i in range(batches)]
    cut, ratio = torch.cat([network(each.suspects) > 0 for each in found]), torch.cat([each.ratio for each in found])
    bad, good = ratio > settings.loss.ratio, (ratio >= 0) & (ratio <= settings.loss.ratio)
    shares = {"recall": cut[bad], "false": cut[good], "share": bad[ratio >= 0]}
    return {name: float(value.float().mean()) for name, value in shares.items()}
