r"""Training of the cleaning network on procedural shapes, damaged as scanners damage them.

    dense shape -> sample: even, independent, as vertices lie, a step of density, or scan lines
    damage:  isotropic noise, noise along the view, misregistered views, voxels, strays, flying pixels  ->  points y
    loss = mean of  smooth_l1(n . (f - d) / s) + 0.2 |tangential part of f| / s + 0.2 BCE(z, stray)

``d = n (n . (p - y))`` is the offset to the plane at the nearest dense point ``p`` among the neighbours of the point
that was sampled: never to the other side of a thin wall.  Some steps start from the network's own result, so that it
can be applied twice.  What a step sees depends on the seed and the step alone.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, smooth_l1_loss

from eigenprobe.host.weights import drawing
from eigenprobe.sampling.cleaning import CleaningConfig, CleaningNetwork, apart, read_cleaning, write_cleaning
from eigenprobe.training import RunSettings
from eigenprobe.training.recipes import recipe_kind

from ..shapes.contacts import FoldedShapes
from ..shapes.damage import Damage, damaged
from ..shapes.dense import DenseShapes
from ..shapes.fields import take
from .blocks import FoldedSettings, FoldedStream
from .timed import Schedule, TimedModule, train_timed

MESHED = 4000  # points up to which clouds are sampled as vertices lie


@dataclass(frozen=True)
class CleaningSettings(FoldedSettings):
    """Everything about a run: ``chunk`` new shapes of ``dense`` points per block of batches, the last ``chunks`` kept;
    ``points`` per batch, in clouds of one of the ``sizes``; ``again`` is the share of second passes."""

    network: CleaningConfig = field(default_factory=CleaningConfig)
    damage: Damage = field(default_factory=Damage)
    schedule: Schedule = field(default_factory=lambda: Schedule(optimiser="adamw", adam_rate=2e-3, cooldown=0.9))
    chunk: int = 56
    chunks: int = 4
    dense: int = 40_000
    points: int = 24_000
    sizes: tuple[int, ...] = (500, 1000, 1500, 2500, 4000, 4000, 8000, 16_000)
    again: float = 0.3
    block: int = 100
    passes: int = 5
    shipped: bool = False  # go on from the weights in the package


class Damaged(NamedTuple):
    """Points ``y (n, 3)`` of clouds apart, their neighbours as the network found them, the true surface around each,
    ``near, normals (n, 13, 3)``, and strays."""

    y: Tensor
    found: tuple[Tensor, Tensor]
    near: Tensor
    normals: Tensor
    stray: Tensor

    def offsets(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Offsets from ``y`` to the surface and its normals there, ``(n, 3)``."""
        row = (self.near - y[:, None]).square().sum(2).argmin(1)[:, None, None].expand(-1, 1, 3)
        p, n = self.near.gather(1, row)[:, 0], self.normals.gather(1, row)[:, 0]
        return ((p - y) * n).sum(1, keepdim=True) * n, n


class DamagedStream(FoldedStream[Damaged]):
    """Damaged clouds with the true surface around their points."""

    settings: CleaningSettings

    @cached_property
    def search(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        with drawing(0):
            return CleaningNetwork(self.settings.network).search

    def folded(self) -> FoldedShapes:
        s = self.settings
        shapes = DenseShapes(s.seed * 64 + self.rank, self.device, touching=0.2)
        return FoldedShapes(shapes, s.chunk, s.dense, min(MESHED, max(s.sizes)), s.chunks)

    @torch.no_grad()
    def prepare(self, block: int, place: int) -> Damaged:
        s = self.settings
        number = s.seed * 1_000_003 + block * s.block + place
        coin, generator = (torch.Generator(where).manual_seed(number) for where in ("cpu", self.device))
        m, shapes, graph, order = self.draw(block, s.sizes, s.points, coin)
        b = len(order)
        turn = torch.linalg.qr(torch.randn((b, 3, 3), generator=generator, device=self.device))[0]
        x, normals = shapes.points @ turn, shapes.normals @ turn
        chosen, y, stray, keep = damaged(x, normals, order, m, s.damage, generator)
        index, length = (take(part, chosen) for part in graph)
        around = torch.cat([chosen[..., None], torch.where(torch.isfinite(length), index, chosen[..., None])], 2)
        flat = (around + x.shape[1] * torch.arange(b, device=self.device)[:, None, None])[keep]  # (n, 13)
        place_of = apart(b, self.device)[:, None].expand(b, m, 3)[keep]
        near = x.flatten(0, 1)[flat] + place_of[:, None]
        y = y[keep] + place_of
        return Damaged(y, self.search(y), near, normals.flatten(0, 1)[flat], stray[keep])


class CleaningModule(TimedModule):
    """The cleaning network, its loss and its schedule."""

    settings: CleaningSettings

    def __init__(self, settings: CleaningSettings) -> None:
        with drawing(settings.seed):
            network = deepcopy(read_cleaning()) if settings.shipped else CleaningNetwork(settings.network)
        super().__init__(network.train().requires_grad_(True), settings)

    def correct(self, y: Tensor, found: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.network(y, found)

    def losses(self, batch: Damaged, again: bool) -> dict[str, Tensor]:
        """The loss, and the mean distance to the surface in units of the spacing, before and after."""
        y, found = batch.y, batch.found
        if again:
            with torch.no_grad():
                offset, _, unit = self.correct(y, found)
            y = y + offset * unit[:, None]
            found = cast(CleaningNetwork, self.network).search(y)
        target, normals = batch.offsets(y)
        offset, logits, unit = self.correct(y, found)
        error = offset - target / unit[:, None]
        across = (error * normals).sum(1)
        along = (error - across[:, None] * normals).norm(dim=1)
        fit = smooth_l1_loss(across, torch.zeros_like(across), reduction="none", beta=0.03) + 0.2 * along
        kept = ~batch.stray
        stray = binary_cross_entropy_with_logits(logits, batch.stray.float())
        return {
            "loss": (fit * kept).sum() / kept.sum() + 0.2 * stray,
            "before": ((target.norm(dim=1) / unit) * kept).sum() / kept.sum(),
            "after": (across.abs() * kept).sum().detach() / kept.sum(),
        }

    def training_step(self, item: Any, batch_idx: int) -> Tensor:
        batch = cast(DamagedStream, item).to(self.device, self.rank).at(self.batches_seen)
        coin = torch.Generator().manual_seed(self.batches_seen)
        return self.count_batch(self.losses(batch, bool(torch.rand((), generator=coin) < self.settings.again)))


@recipe_kind("cleaning", CleaningSettings, ("minutes", "piece", "steps"))
def train_cleaning(settings: CleaningSettings, folder: Path, how: RunSettings | None = None, **changes: Any) -> Path:
    """Run (or go on with) training in `folder`; returns the folder of the exported network. ``changes`` are fields of
    `RunSettings`: device, resume, flags."""
    module = CleaningModule(settings)
    trainer, facts = train_timed(module, DamagedStream(settings), how, folder=folder, **changes)
    if trainer.is_global_zero:
        network = cast(CleaningNetwork, module.eval().network).cpu()
        write_cleaning(folder / "model", network, facts | {"history": module.history[-100:]})
    return folder / "model"
