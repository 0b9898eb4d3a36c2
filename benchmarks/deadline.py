"""Training for a given time: it stops at the end of it, and the rate has then fallen to its end."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as pl

BEGAN = time.monotonic()


class Deadline(pl.Callback):
    """Stop ``seconds`` after the start of the process; lower the rate to that of the share of
    ``budget`` spent.
    """

    def __init__(self, seconds: float, budget: float) -> None:
        self.seconds, self.budget, self.spent, self.tick = seconds, budget, 0.0, 0.0

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        o, self.tick = module.optimisation, self.tick or time.monotonic()
        due = int(self.spent / self.budget * (o.anneal or o.steps)) if self.budget else 0
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = o.rate * min(o.factor(due), o.factor(trainer.global_step))

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        now = time.monotonic()
        self.spent, self.tick = self.spent + now - self.tick, now
        if trainer.global_step % 1000 == 0:
            print(f"step {trainer.global_step} after {now - BEGAN:.0f} s", flush=True)
        trainer.should_stop |= bool(self.seconds) and now - BEGAN > self.seconds

    def state_dict(self) -> dict[str, Any]:
        return {"spent": self.spent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.spent = state["spent"]
