"""One network per shape, our way, against the mesh oracle and the closed form.

    vertices -> fit over farthest-point resamplings -> basis at a fresh sample of n vertices ->
    cosines, eigenvalues

Every shape has three results at the same points: the network feed-forward, after the Ritz rotation
in its span, and the closed form on those points. Loss, seconds and steps to within 1 % of the
closed form are measured on resamplings that were not trained on.
"""

import time
from dataclasses import replace

import lightning.pytorch as pl
import torch

from eigenprobe.basis import Basis
from eigenprobe.eigen import solve
from eigenprobe.host.tables import Record
from eigenprobe.host.threads import now
from eigenprobe.training import FitSettings, ProbeSettings, RunSettings, fit_network
from eigenprobe.training.fit import network_basis

from .samples import Sample, agreement, fitted_network
from .surfaces import levels

CLOSE = 0.01  # relative distance to the closed-form loss that counts as reached
SAMPLE_SEED = 1000  # of the points compared: apart from the seeds of the resamplings trained on
SETTINGS = FitSettings(probes=ProbeSettings(smoother={"dimension": 2}), resamplings=16, held_out=2)
VALIDATE_EVERY = 25
RUN = RunSettings(device="cpu", validate_every=VALIDATE_EVERY)
History = list[tuple[int, float, float]]  # step, seconds, gap


class Watch(pl.Callback):
    """The gap to the closed form at every validation, against training time (validation's own time
    taken out).
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.spent, self.began = device, 0.0, 0.0
        self.history: History = []

    def on_train_batch_start(self, *_: object) -> None:
        self.began = self.began or now(
            self.device
        )  # what is compiled or captured before is not training

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.stopped = now(self.device)

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        gap = float(trainer.callback_metrics.get("val/gap", torch.tensor(torch.nan)))
        self.history.append((int(trainer.global_step), self.stopped - self.began - self.spent, gap))
        self.spent += now(self.device) - self.stopped

    def reached(self) -> tuple[int | None, float | None]:
        """Step and seconds of the first validation within `CLOSE` of the closed form."""
        return next(
            ((step, seconds) for step, seconds, gap in self.history if gap <= CLOSE), (None, None)
        )


def learn_shape(
    sample: Sample, k: int = 50, settings: FitSettings = SETTINGS, run: RunSettings = RUN
) -> tuple[list[Record], Basis, History]:
    """Fit the vertices of one shape: its rows of the table, the basis at its vertices, and the gap
    during training.
    """
    where = run.where
    watch = Watch(where)
    vertices = torch.as_tensor(sample.shape.vertices, dtype=torch.float32, device=where)
    if settings.size is not None and settings.size >= len(vertices):
        settings = replace(settings, size=len(vertices), held_out=0)
    every = run.validate_every if settings.held_out else 0
    fit = fit_network(
        vertices, k, settings=settings, run=replace(run.watched(watch), validate_every=every)
    )
    step, seconds = watch.reached()
    spent = fit.info["seconds"]
    facts = {
        "steps": fit.info["steps"],
        "steps_to_1_percent": step,
        "seconds_to_1_percent": seconds,
    }
    facts |= fit.info["feedforward"] | {
        "prepare": spent["prepare"],
        "seconds": spent["train"] - watch.spent,
    }
    points = torch.as_tensor(sample.points, dtype=torch.float32, device=where)
    whole = settings.all_probes().build(points)
    function, rows = fitted_network(fit), []
    for name, ritz in (("feedforward", False), ("ritz", True)):
        basis = network_basis(function, points, whole, ritz=ritz)
        rows.append(_row(name, sample, k, basis.vectors, basis.eigenvalues) | facts)
    started = time.perf_counter()
    if whole.symmetric:
        q, gaps, *_ = solve(whole, k)
        row = _row("closed form", sample, k, q / whole.mass.sqrt()[:, None], gaps / whole.step_time)
        rows.append(row | {"seconds": time.perf_counter() - started})
    return rows, fit, watch.history


def _row(
    method: str, sample: Sample, k: int, vectors: torch.Tensor, values: torch.Tensor
) -> Record:
    alignment = sample.compare(vectors.cpu().numpy(), values.cpu().numpy())
    base = {"shape": sample.shape.name, "method": method, "n": len(sample.points)}
    return base | agreement(alignment, levels(k))
