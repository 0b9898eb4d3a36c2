"""Training by the clock: the schedule runs on training *time* (or steps, whichever is further),
kept in the checkpoint.

    rate(t) = highest * factor(progress),    progress = max(seconds / budget, step / steps)

So a run may be cut into pieces of a few minutes on machines of different speed. Hidden matrices
move by torch's Muon (Jordan et al. 2024), all else by its AdamW, in one optimiser: Lightning takes
one. Steps of the shipped recipe take 96 ms on an H200; matrices of one shape stacked took 76.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from eigenprobe.host.files import Facts
from eigenprobe.host.tables import Record
from eigenprobe.training import ManifoldData, Optimisation, RunSettings, SpectralModule, train

from .averaging import Averaged
from .schedule import Schedule, TimedSettings

MOMENTUM, BETAS = 0.95, (0.9, 0.99)  # of Muon, of AdamW


class TimedModule(SpectralModule):
    """A `SpectralModule` whose `schedule` counts seconds; parameter groups carry their ``highest``
    rate. `settings` are those of the recipe."""

    def __init__(self, network: nn.Module, settings: TimedSettings, **options: Any) -> None:
        self.schedule = settings.schedule
        limits = Optimisation(steps=self.schedule.steps, clip=self.schedule.clip)
        super().__init__(network, optimisation=limits, seed=settings.seed, **options)
        self.settings, self.seconds = settings, 0.0
        self.history: list[Record] = []
        self._tick: float | None = None
        self._began = time.monotonic()

    @property
    def progress(self) -> float:
        return max(
            self.seconds / (60 * self.schedule.minutes), self.global_step / self.schedule.steps
        )

    @property
    def rank(self) -> int:
        return 0 if self._trainer is None else self.trainer.global_rank

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Muon for the matrices of the hidden layers and AdamW for the rest, or AdamW for all."""
        s = self.schedule
        if s.optimiser == "muon":
            named = dict(self.network.named_parameters())
            hidden = [name for name, p in named.items() if p.ndim == 2 and ".layers." in name]
            matrices = [named.pop(name) for name in hidden]
            optimiser: torch.optim.Optimizer = MuonAdamW(matrices, named.values(), s)
        else:
            options: Any = {"weight_decay": s.weight_decay, "fused": True}
            optimiser = torch.optim.AdamW(self.parameters(), s.adam_rate, BETAS, **options)
        for group in optimiser.param_groups:
            group["highest"] = group["lr"]
        return optimiser

    def count_batch(self, found: dict[str, Tensor], remembered: bool = True) -> Tensor:
        """Count a batch; every few steps, log its loss and keep what was found in the history.
        Returns the loss.
        """
        self.batches_seen += 1
        if self.global_step % self.log_every == 0:
            for name, value in (
                ("loss", found["loss"].detach().float()),
                ("progress", self.progress),
            ):
                self.log(f"train/{name}", value, prog_bar=True, batch_size=1)
            if remembered:
                self.remember(
                    **{name: round(float(value.detach()), 4) for name, value in found.items()}
                )
        return found["loss"]

    def remember(self, **facts: float) -> None:
        """A row of the history, with the step and the seconds."""
        self.history.append({"step": self.global_step, "seconds": round(self.seconds, 1), **facts})

    def on_train_start(self) -> None:
        super().on_train_start()
        self._tick = time.monotonic()

    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        for optimiser in self.trainer.optimizers:
            for group in optimiser.param_groups:
                group["lr"] = group["highest"] * self.schedule.factor(self.progress)

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        super().on_train_batch_end(outputs, batch, batch_idx)
        now = time.monotonic()
        clock = torch.tensor([now - (self._tick or now), now - self._began])
        if self.trainer.world_size > 1:  # every process follows the first one's clock
            clock = self.trainer.strategy.broadcast(clock)
        self._tick = now
        self.seconds += float(clock[0])
        piece = self.schedule.piece
        if self.progress >= 1 or (piece and float(clock[1]) > 60 * piece):
            self.trainer.should_stop = True

    def on_validation_start(self) -> None:
        self._validation = time.monotonic()

    def on_validation_end(self) -> None:
        if self._tick is not None:
            self._tick += time.monotonic() - self._validation  # validation costs no training time

    def on_save_checkpoint(self, checkpoint: Facts) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["clock"] = {"seconds": self.seconds, "history": self.history}

    def on_load_checkpoint(self, checkpoint: Facts) -> None:
        super().on_load_checkpoint(checkpoint)
        self.seconds, self.history = checkpoint["clock"]["seconds"], checkpoint["clock"]["history"]


def train_timed(
    module: TimedModule,
    stream: Any,
    run: RunSettings | None,
    held_out: Sequence[Any] = (),
    **changes: Any,
) -> tuple[pl.Trainer, Facts]:
    """Train on a stream as `settings` say; the trainer and the facts of the run. ``changes`` are
    fields of ``run``.
    """
    settings, run = module.settings, replace(run or RunSettings(), **changes)
    flags = {"max_epochs": -1, **run.flags}
    run = replace(run, checkpoint_every=settings.checkpoint_every, flags=flags)
    if settings.average > 0:
        run = run.watched(Averaged(settings.average))
    trainer = train(module, ManifoldData(stream, held_out, settings.schedule.steps), run)
    module.to(trainer.strategy.root_device)  # Lightning hands the module back on the processor
    device = torch.cuda.get_device_name() if module.device.type == "cuda" else module.device.type
    facts = {"recipe": json.loads(json.dumps(asdict(settings), default=str)), "device": device}
    return trainer, facts | {"steps": trainer.global_step, "seconds": round(module.seconds, 1)}


class MuonAdamW(torch.optim.Optimizer):
    """Muon for the first parameter group, AdamW for the second. A step whose `found_inf` is 1
    leaves weights, moments and step counts as they were."""

    found_inf: Tensor | None = None
    grad_scale: Tensor | None = None

    def __init__(
        self, matrices: Iterable[Tensor], others: Iterable[Tensor], schedule: Schedule
    ) -> None:
        """The weight decay is that of the matrices; biases, norms, inputs and outputs do not
        decay.
        """
        self.parts = (
            torch.optim.Muon(
                list(matrices), schedule.rate, schedule.weight_decay, momentum=MOMENTUM
            ),
            torch.optim.AdamW(
                list(others), schedule.adam_rate, BETAS, weight_decay=0.0, fused=True
            ),
        )
        super().__init__([dict(part.param_groups[0]) for part in self.parts], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.found_inf is None or not bool(self.found_inf):
            for part, group in zip(self.parts, self.param_groups, strict=True):
                part.state, part.param_groups = self.state, [group]  # loading replaces both
                part.step()
        return loss
