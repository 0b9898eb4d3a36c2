"""Callbacks: checkpoints that survive a kill, weights averaged over the last steps.

`Checkpoints` writes ``last.ckpt`` beside its final place and renames it, so a run killed in the middle of a write
still has the one before.  It saves every few steps, at the end, and when the run is interrupted (Ctrl-C, SIGTERM) or
fails.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)
LAST = "last.ckpt"


def last_checkpoint(folder: str | os.PathLike[str] | None) -> Path | None:
    """The checkpoint to resume from, if the folder has one."""
    path = None if folder is None else Path(folder) / LAST
    return path if path is not None and path.is_file() else None


class Checkpoints(pl.Callback):
    """Save the whole state of a run to ``folder/last.ckpt`` every ``every`` optimiser steps."""

    def __init__(self, folder: str | os.PathLike[str], every: int = 200) -> None:
        self.folder, self.every = Path(folder), every
        self.saved = -1

    def save(self, trainer: pl.Trainer) -> Path:
        """Write now; every process must call it."""
        target = self.folder / LAST
        temporary = target.with_suffix(".partial")
        if trainer.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
        trainer.save_checkpoint(temporary)
        if trainer.is_global_zero:
            os.replace(temporary, target)
        self.saved = trainer.global_step
        return target

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        # Between two optimiser steps of an accumulation there is nothing new to save.
        if trainer.global_step != self.saved and trainer.global_step % self.every == 0:
            self.save(trainer)

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if trainer.global_step != self.saved:
            self.save(trainer)

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        if trainer.global_step > 0 and trainer.world_size == 1:
            # A collective save could wait for ever for a process that failed; the periodic one stands then.
            log.warning("%s: saved %s at step %d", type(exception).__name__, self.save(trainer), trainer.global_step)


class Averaged(pl.Callback):
    """Exponential moving average of the weights, used for validation and kept at the end.

    The decay grows with the step, ``min(decay, (1 + t) / (10 + t))``, so that a short run is not held back by its
    start.
    """

    def __init__(self, decay: float = 0.99) -> None:
        self.decay = decay
        self.weights: list[torch.Tensor] = []
        self._swapped = False

    @staticmethod
    def _parameters(module: pl.LightningModule) -> list[torch.Tensor]:
        return [p.data for p in module.parameters() if p.requires_grad]

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        live = self._parameters(module)
        if len(self.weights) == len(live):  # resumed
            self.weights = [w.to(p.device) for w, p in zip(self.weights, live)]
        else:
            self.weights = [p.clone() for p in live]

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        t = trainer.global_step
        torch._foreach_lerp_(self.weights, self._parameters(module), 1 - min(self.decay, (1 + t) / (10 + t)))

    @contextmanager
    def applied(self, module: pl.LightningModule) -> Iterator[None]:
        """The module with the averaged weights, for the length of a block."""
        self._exchange(module)
        try:
            yield
        finally:
            self._exchange(module)

    def _exchange(self, module: pl.LightningModule) -> None:
        for live, average in zip(self._parameters(module), self.weights):
            kept = live.clone()
            live.copy_(average)
            average.copy_(kept)

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.weights:
            self._exchange(module)

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.weights:
            self._exchange(module)

    def keep(self, module: pl.LightningModule) -> None:
        """Make the averaged weights the module's own."""
        for live, average in zip(self._parameters(module), self.weights):
            live.copy_(average.to(live.device))

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights = list(state["weights"])


class Capture(pl.Callback):
    """Before the first step: prepare compiled or graphed passes for the first batch's shape."""

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        item = next(iter(trainer.train_dataloader))  # type: ignore[arg-type]
        batch = item.at(0) if hasattr(item, "at") else item
        module.capture(batch.to(module.device))
