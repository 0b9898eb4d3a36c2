"""Training of the short-cut network by a recipe; what it learns from is `judged`."""

from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from eigenprobe.cloud.edges import shipped
from eigenprobe.cloud.network import ShortcutNetwork, write_shortcut
from eigenprobe.host.weights import drawing
from eigenprobe.training import RunSettings

from .judged import ContactStream, Judged, NeighbourSettings, held_out
from .recipes import recipe_kind
from .timed import TimedModule, train_timed


class NeighbourModule(TimedModule):
    """The short-cut network, its loss and its schedule."""

    settings: NeighbourSettings

    def __init__(self, settings: NeighbourSettings) -> None:
        with drawing(settings.seed):
            network = deepcopy(shipped()) if settings.shipped else ShortcutNetwork(settings.network)
        super().__init__(network.train().requires_grad_(True), settings)

    def judged_loss(self, batch: Judged) -> Tensor:
        """The loss of a batch."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            z = self.network(batch.suspects)
        return self.settings.loss(z, batch.ratio)

    def training_step(self, item: Any, batch_idx: int) -> Tensor:
        batch = cast(ContactStream, item).to(self.device, self.rank).at(self.batches_seen)
        if not self.batches_seen and not self.settings.shipped:
            cast(ShortcutNetwork, self.network).normalise_by(batch.suspects)
        return self.count_batch({"loss": self.judged_loss(batch)})


@recipe_kind("neighbours", NeighbourSettings, ("minutes", "piece", "steps"))
def train_neighbours(
    settings: NeighbourSettings, folder: Path, how: RunSettings | None = None, **changes: Any
) -> Path:
    """Run (or go on with) training in `folder`; returns the folder of the exported network.
    ``changes`` are fields of `RunSettings`: device, resume, flags."""
    module = NeighbourModule(settings)
    trainer, facts = train_timed(module, ContactStream(settings), how, folder=folder, **changes)
    network = cast(ShortcutNetwork, module.eval().network)
    facts |= {
        "held out": held_out(network, settings, module.device),
        "history": module.history[-200:],
    }
    if trainer.is_global_zero:
        write_shortcut(folder / "model", network.cpu(), facts)
    return folder / "model"
