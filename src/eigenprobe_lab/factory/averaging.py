"""Averaged weights of a training, as a callback of Lightning."""

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor


class Averaged(WeightAveraging):
    """Exponential moving average of the weights, used for validation and kept at the end.

    The decay grows with the step, ``min(decay, (1 + t) / (10 + t))``, so that a short run is not
    held back by its start.
    """

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__(use_buffers=False, multi_avg_fn=self._update)
        self.decay, self.share = decay, 1.0

    def _update(self, average: list[Tensor], live: list[Tensor], count: object) -> None:
        torch._foreach_lerp_(average, live, self.share)

    def setup(self, trainer: pl.Trainer, module: pl.LightningModule, stage: str) -> None:
        self._device = trainer.strategy.root_device  # where the module will be, but is not yet
        super().setup(trainer, module, stage)
        if (
            self._average_model is not None
        ):  # counted on the host: the device would be asked at every step
            self._average_model.n_averaged = self._average_model.n_averaged.cpu()

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, *batch: Any
    ) -> None:
        t = trainer.global_step
        self.share = 1 - min(self.decay, (1 + t) / (10 + t))
        super().on_train_batch_end(trainer, module, *batch)

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Not yet: the last checkpoint of a run that goes on later holds the live weights."""

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        super().on_train_end(trainer, module)
