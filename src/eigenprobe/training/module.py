"""The Lightning module of every setting: network + objective + optimiser.

    loss = mean over the batch of  objective(sqrt(mass) * network(points))
    AdamW (Adam where weights do not decay), warm-up then cosine

The network runs under bf16 autocast where asked; the objective always runs in float32 with float64
K x K algebra.  On CUDA with clouds of one size the forward and backward passes (of the network;
with the paper's probes those of probes and loss too) are replayed as CUDA graphs, since a step is
otherwise bound by kernel launches.  A batch whose gradient is not finite is skipped without leaving
a trace in the optimiser, counted, and reported in one warning; training stops only when `patience`
such batches come in a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from ..errors import InputError, warn
from ..host.device import graphed
from ..host.files import Facts
from ..host.validation import validated
from ..probes.objective import Objective
from ..probes.probes import Probes
from .data import Batch, PaperDraw, Source

Precision = Literal["auto", "32", "bf16"]  # auto: bf16 on a GPU


@validated
@dataclass(frozen=True)
class Optimisation:
    """AdamW and its schedule over ``steps`` optimiser steps. Without ``weight_decay``, the default,
    its steps are those of Adam.

    ``schedule`` is ``"cosine"`` from ``rate`` to ``final_rate`` after ``warmup`` steps, ``"step"``
    (times 0.1 at 30 % and at 70 %, the paper's toy) or ``"constant"``.  It takes ``anneal`` steps
    where given (the paper: 5000 of 12 000) and stays at its end.  ``clip`` bounds the gradient norm
    (0: no bound).
    """

    steps: int = 1000
    rate: float = 1e-3
    final_rate: float = 1e-5
    warmup: int = 20
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = 1.0
    anneal: int | None = None

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InputError(f"steps must be at least 0, got {self.steps}")

    def factor(self, step: int) -> float:
        """Learning rate at an optimiser step, relative to ``rate``."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, (self.anneal or self.steps) - self.warmup))
        if self.schedule == "constant":
            return 1.0
        if self.schedule == "step":
            return 0.1 ** ((done >= 0.3) + (done >= 0.7))
        floor = self.final_rate / self.rate
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


class MixedPrecision(nn.Module):
    """The network under autocast, features back in float32: one callable to capture as a graph."""

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        super().__init__()
        if precision not in get_args(Precision):
            raise InputError(f"precision must be auto, 32 or bf16, got {precision!r}")
        self.network, self.precision = network, precision

    def forward(self, points: Tensor) -> Tensor:
        # A cached cast made outside a graph capture would be used inside it: hence no cache.
        enabled = self.precision == "bf16" or (self.precision == "auto" and points.is_cuda)
        with torch.autocast(
            points.device.type, torch.bfloat16, enabled=enabled, cache_enabled=False
        ):
            features = self.network(points)
        return features.float() if enabled else features


class ForwardPass(nn.Module):
    """The whole forward pass of a batch, from its points and the seeds of its probes to its losses
    ``(b,)``.
    """

    def __init__(self, mixed: MixedPrecision, objective: Objective, probes: Probes) -> None:
        super().__init__()
        self.mixed, self.objective, self.probes = mixed, objective, probes

    def forward(self, points: Tensor, *seeds: Tensor) -> Tensor:
        batch = Batch(points, probes=self.probes.smooth(*seeds).unflatten(0, (len(points), -1)))
        return batch.losses(self.objective, self.mixed(points))


class SpectralModule(pl.LightningModule):
    """Train a network by reconstruction.

    Data loaders yield `Batch` objects, or objects with ``at(step) -> Batch`` (a `Pool`), which
    makes the sequence of batches a function of the step alone: a resumed run then sees what an
    uninterrupted one would have seen.
    """

    def __init__(
        self,
        network: nn.Module,
        objective: Objective | None = None,
        optimisation: Optimisation | None = None,
        *,
        precision: Precision = "32",
        accelerate: Literal["none", "graph"] = "none",
        seed: int = 0,
        log_every: int = 20,
        patience: int = 50,
    ) -> None:
        super().__init__()
        self.mixed = MixedPrecision(network, precision)
        self.objective = objective or Objective()
        self.optimisation = optimisation or Optimisation()
        self.accelerate, self.seed = accelerate, seed
        self.log_every, self.patience = log_every, patience
        self.batches_seen = 0
        self.source: dict[str, str] = {}  # what is learned: of a checkpoint the same
        self.skipped: Tensor
        self.register_buffer("skipped", torch.zeros(2), persistent=False)  # in all, in a row
        self._reported = 0
        # In a list, since as an attribute it would be a second copy of the network's parameters.
        self._whole: list[ForwardPass] = []

    @property
    def network(self) -> nn.Module:
        return self.mixed.network

    def forward(self, points: Tensor) -> Tensor:
        """Features ``(b, n, K)`` of points ``(b, n, d)``."""
        return self.mixed(points)

    def loss(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """Loss of every cloud ``(b,)``."""
        if self._whole and isinstance(batch.probes, PaperDraw) and torch.is_grad_enabled():
            return self._whole[0](
                batch.points, *batch.probes.probes.seeds(batch.probes.graph, generator)
            )
        features = self(batch.points)
        with torch.autocast(features.device.type, enabled=False):
            return batch.losses(self.objective, features, generator)

    def _batch(self, item: Batch | Source, index: int) -> tuple[Batch, torch.Generator | None]:
        if self._trainer is not None:
            index = index * self.trainer.world_size + self.trainer.global_rank
        batch = item if isinstance(item, Batch) else item.at(index)
        if self.objective.kind == "expected":
            return batch, None
        generator = torch.Generator(batch.points.device)
        generator.manual_seed((self.seed * 1_000_003 + index * 2) % 2**63)
        return batch, generator

    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        # Dropout draws from the process: like the batch, what it draws follows from the step.
        number = self.batches_seen * self.trainer.world_size + self.trainer.global_rank
        torch.manual_seed(self.seed * 1_000_003 + number)

    def on_train_start(self) -> None:
        # Graphs reuse their gradients: none of them can be accumulated.
        if self.accelerate != "none" and self.trainer.accumulate_grad_batches == 1:
            item = next(iter(self.trainer.train_dataloader))  # type: ignore[arg-type]
            self.capture((item.at(0) if hasattr(item, "at") else item).to(self.device))

    def training_step(self, item: Batch | Source, batch_idx: int) -> Tensor:
        batch, generator = self._batch(item, self.batches_seen)
        self.batches_seen += 1
        loss = self.loss(batch, generator).mean()
        if self.global_step % self.log_every == 0:
            shown = loss.detach().float()  # some devices have no float64 reductions in the loggers
            self.log("train/loss", shown, prog_bar=True, batch_size=1)
            self.log(
                "train/rate",
                self.optimisation.rate * self.optimisation.factor(self.global_step),
                batch_size=1,
            )
        return loss

    def configure_optimizers(self) -> Any:
        o = self.optimisation
        parameters = [p for p in self.parameters() if p.requires_grad]
        optimiser = torch.optim.AdamW(
            parameters, o.rate, o.betas, weight_decay=o.weight_decay, fused=True
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, o.factor)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: object = None,
        gradient_clip_algorithm: object = None,
    ) -> None:
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        if not gradients:
            return
        norm = nn.utils.get_total_norm(gradients, foreach=True)
        failed = ~torch.isfinite(norm)
        if self.optimisation.clip > 0:
            scale = (self.optimisation.clip / (norm + 1e-12)).clamp(max=1.0)
            torch._foreach_mul_(gradients, scale)
        # The fused optimiser leaves parameters, moments and step counts alone where found_inf is 1:
        # no synchronisation.
        optimizer.found_inf = failed.float()
        optimizer.grad_scale = None
        bad = failed.to(self.skipped.dtype)
        self.skipped[0] += bad
        self.skipped[1] = (self.skipped[1] + bad) * bad

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        if self.global_step % self.log_every == 0:
            self.report_skipped()

    def on_train_end(self) -> None:
        self.report_skipped()

    def report_skipped(self) -> int:
        """Warn of batches skipped since the last report; the number skipped in all."""
        total, row = (int(x) for x in self.skipped.tolist())
        if total > self._reported:
            warn(
                f"{total - self._reported} training batches had no finite gradient "
                f"(rank-deficient features or NaN in the data) and were skipped, {total} in all"
            )
            self._reported = total
        if row >= self.patience:
            raise InputError(f"training stopped: {row} batches in a row had no finite gradient")
        return total

    def capture(self, batch: Batch) -> None:
        """Capture the network as CUDA graphs, for batches of the shape of ``batch``."""
        if batch.points.is_cuda:
            self.mixed.train()
            drawn, points = batch.probes, batch.points.clone()
            if isinstance(drawn, PaperDraw) and drawn.probes.alike:
                whole = ForwardPass(self.mixed, self.objective, drawn.probes)
                seeds = drawn.probes.seeds(
                    drawn.graph, torch.Generator(points.device).manual_seed(self.seed)
                )
                if graphed(whole, points, *(each.clone() for each in seeds)) is not None:
                    self._whole = [whole]
                    return
            graphed(self.mixed, points)

    def on_save_checkpoint(self, checkpoint: Facts) -> None:
        checkpoint["eigenprobe"] = {"batches_seen": self.batches_seen, "source": self.source}

    def on_load_checkpoint(self, checkpoint: Facts) -> None:
        found = checkpoint.get("eigenprobe", {})
        known = found.get("source", {})
        differing = [name for name in self.source if known.get(name) != self.source[name]]
        if differing or not found:
            others = ", ".join(differing) or "steps"
            raise InputError(
                f"last.ckpt belongs to another run ({others} differ): choose another folder, "
                "or start again by resume='never' (on the command line --resume never)"
            )
        self.batches_seen = found["batches_seen"]
