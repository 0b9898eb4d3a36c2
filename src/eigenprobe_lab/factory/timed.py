"""Training by the clock: the schedule runs on training *time* (or steps, whichever is further),
kept in the checkpoint.

    rate(t) = highest * factor(progress),    progress = max(seconds / budget, step / steps)
    m <- beta m + (1 - beta) g;    u = orthogonalise((1 - beta) g + beta m);    W <- (1 - rate
    decay) W - rate s u

So a run may be cut into pieces of a few minutes on machines of different speed. Hidden matrices
move by Muon (Jordan et al. 2024), second line: `orthogonalise` sends every singular value close to
1; `s = sqrt(max(1, p / q))` for `W (p, q)`. `torch.optim.Muon` gives the same numbers matrix by
matrix: 96 ms per step of the shipped recipe on an H200, where matrices of one shape stacked take 76
ms. It also has no `found_inf`, without which the device must be asked at every step whether the
gradient was finite. All else is torch's AdamW, in one optimiser: Lightning takes one.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
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
    module: TimedModule, stream: Any, run: RunSettings | None, held_out: Any = None, **changes: Any
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


def orthogonalise(x: Tensor, steps: int = 5) -> Tensor:
    """Approximate polar factors of a stack `(s, p, q)` by Newton-Schulz steps of a quintic, in
    bfloat16 on CUDA.
    """
    y = x.bfloat16() if x.is_cuda else x
    tall = y.shape[-2] > y.shape[-1]
    y = y.mT if tall else y
    y = y / y.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = y @ y.mT
        y = 3.4445 * y + (-4.7750 * gram + 2.0315 * gram @ gram) @ y
    return (y.mT if tall else y).to(x.dtype)


class MuonAdamW(torch.optim.Optimizer):
    """The first parameter group is Muon's, the second AdamW's. A step whose `found_inf` is 1 leaves
    weights, moments and step counts as they were."""

    found_inf: Tensor | None = None
    grad_scale: Tensor | None = None

    def __init__(
        self, matrices: Iterable[Tensor], others: Iterable[Tensor], schedule: Schedule
    ) -> None:
        """The weight decay is that of the matrices; biases, norms, inputs and outputs do not
        decay.
        """
        self._adamw = torch.optim.AdamW(
            list(others), schedule.adam_rate, BETAS, weight_decay=0.0, fused=True
        )
        muon = {
            "params": list(matrices),
            "lr": schedule.rate,
            "weight_decay": schedule.weight_decay,
        }
        super().__init__([muon, dict(self._adamw.param_groups[0])], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                by_shape[p.shape].append(p)
        for members in by_shape.values():
            self._muon(members, self.param_groups[0])
        self._adamw.state, self._adamw.param_groups = (
            self.state,
            self.param_groups[1:],
        )  # loading replaces both
        fused: Any = self._adamw
        fused.found_inf, fused.grad_scale = self.found_inf, None
        self._adamw.step()
        return loss

    def _muon(self, members: list[Tensor], group: Facts) -> None:
        """The step of all matrices of one shape; their moments are kept with the first of them."""
        gradients: Any = [p.grad for p in members]
        gradient, weight = torch.stack(gradients), torch.stack(members)
        moment = self.state[members[0]].setdefault("moments", torch.zeros_like(weight))
        after = moment.lerp(gradient, 1 - MOMENTUM)
        step = group["lr"] * max(1.0, weight.shape[1] / weight.shape[2]) ** 0.5
        changed = weight * (1 - group["lr"] * group["weight_decay"])
        changed -= step * orthogonalise(gradient.lerp(after, MOMENTUM))
        if self.found_inf is not None:
            bad = self.found_inf > 0
            after, changed = torch.where(bad, moment, after), torch.where(bad, weight, changed)
        moment.copy_(after)
        torch._foreach_copy_(members, list(changed.unbind(0)))
