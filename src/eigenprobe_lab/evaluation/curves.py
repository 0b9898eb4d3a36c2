"""Agreement with an oracle along a training."""

import time
from collections.abc import Sequence

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from eigenprobe.host.files import Facts
from eigenprobe.probes import nested_basis
from eigenprobe.training import Batch


class OracleCosine(pl.Callback):
    """|cosine| of the learned vectors with an oracle's, mean over i <= 10, 20, 50, logged every few
    steps.

    ``clouds`` are batches of one cloud, each with the oracle's vectors ``(n, K)`` at its points;
    ``history`` keeps what was logged, and the seconds since the start.
    """

    def __init__(self, clouds: Sequence[tuple[Batch, Tensor]], every: int = 200) -> None:
        self.clouds, self.every = list(clouds), every
        self.history: list[dict[str, float]] = []
        self._began = time.monotonic()

    def state_dict(self) -> Facts:
        return {"history": self.history}

    def load_state_dict(self, state: Facts) -> None:
        self.history = list(state["history"])
        self._began -= self.history[-1]["seconds"] if self.history else 0.0

    @torch.no_grad()
    def measure(self, module: pl.LightningModule) -> dict[str, float]:
        """The mean over the clouds, by level."""
        training, rows = module.training, []
        module.eval()
        for batch, truth in self.clouds:
            batch, truth = batch.to(module.device), truth.to(module.device, torch.float64)
            q = nested_basis(module(batch.points)[0])
            found = (q / q[:, :1])[:, : truth.shape[1]]
            rows.append(cosine_similarity(found, truth[:, : found.shape[1]], dim=0).abs())
        module.train(training)
        mean = torch.stack(rows).mean(0)
        return {f"cosine_{k}": float(mean[:k].mean()) for k in (10, 20, 50) if k <= len(mean)}

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, *_: object
    ) -> None:
        step = trainer.global_step
        if step % self.every == 0 and (not self.history or self.history[-1]["step"] != step):
            found = self.measure(module)
            self.history.append(
                {"step": step, "seconds": round(time.monotonic() - self._began, 1), **found}
            )
            for name, value in found.items():
                module.log(f"val/{name}", value, batch_size=1, rank_zero_only=True)
