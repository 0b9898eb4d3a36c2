"""The paper's single-shape table: one network a shape, against the mesh oracle, the closed form and the paper.

    vertices -> fit over farthest-point resamplings -> basis at a fresh sample of n vertices -> cosines, eigenvalues

Every row has four results at the same points: the network feed-forward, after the K x K Ritz rotation, the closed
form on those points, and the paper's printed numbers.  Loss, seconds and steps to within 1 % of the closed form are
measured on resamplings that were not trained on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..eigen.solve import solve
from ..errors import InputError
from ..evaluation.alignment import compare_vectors
from ..probes.spectrum import rayleigh
from ..training.data import ProbeSettings, prepare
from ..training.fit import Fit, FitSettings, fit_manifold
from ..training.runs import RunSettings
from .published import published

Array = NDArray[Any]
LEVELS = (10, 20, 50)
CLOSE = 0.01  # relative distance to the closed-form loss that counts as reached
RESULTS = ("feedforward", "ritz", "closed form", "paper")
SETTINGS = FitSettings(probes=ProbeSettings(smoother={"dimension": 2}), resamplings=16, held_out=2)


class Watch(pl.Callback):
    """The gap to the closed form at every validation, against training time (validation's own time taken out)."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.spent = device, 0.0
        self.history: list[tuple[int, float, float]] = []  # step, seconds, gap

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.began = self._now()

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.stopped = self._now()

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        gap = float(trainer.callback_metrics.get("val/gap", torch.tensor(torch.nan)))
        self.history.append((int(trainer.global_step), self.stopped - self.began - self.spent, gap))
        self.spent += self._now() - self.stopped

    def reached(self) -> tuple[int | None, float | None]:
        """Step and seconds of the first validation within `CLOSE` of the closed form."""
        return next(((step, seconds) for step, seconds, gap in self.history if gap <= CLOSE), (None, None))


@dataclass(frozen=True)
class Reference:
    """A shape as the experiment needs it: all vertices, the sample to compare at, and the oracle there."""

    name: str
    vertices: Array  # (N, 3)
    indices: Array  # (n,)
    vectors: Array  # (n, K)
    eigenvalues: Array  # (K,)

    @classmethod
    def of_mesh(cls, path: Path, n: int = 4000, k: int = 50, seed: int = 1000) -> Reference:
        """Read a mesh, solve its cotangent Laplacian, sample its vertices."""
        from ..geometry import farthest_points, load, oracle

        shape = load(path)
        if shape.faces is None:
            raise InputError(f"expected a mesh to compare with, got a point cloud in {path}")
        truth = oracle(shape.vertices, shape.faces, k)
        vertices = np.asarray(shape.vertices, dtype=np.float32)
        indices = np.asarray(farthest_points(vertices, min(n, len(vertices)), seed=seed))
        return cls(path.stem, vertices, indices, np.asarray(truth.vectors)[indices], np.asarray(truth.eigenvalues))

    def agreement(self, vectors: Tensor, values: Tensor) -> dict[str, float]:
        """Mean |cosine| up to each level, and the eigenvalue discrepancy."""
        result = compare_vectors(vectors.cpu().numpy(), self.vectors, values.cpu().numpy(), self.eigenvalues)
        levels = [k for k in LEVELS if k <= result.k]
        return {f"cosine_{k}": result.cosine(k) for k in levels} | {"discrepancy": result.eigenvalue_discrepancy()}


def learn_shape(
    shape: Reference,
    k: int = 50,
    settings: FitSettings = SETTINGS,
    *,
    device: str | torch.device = "cpu",
    run: RunSettings | None = None,
    validate_every: int = 25,
) -> tuple[dict[str, Any], Fit]:
    """Fit one shape; its row of the table and the fit itself."""
    where = torch.device(device)
    watch = Watch(where)
    run = run or RunSettings()
    flags = {**run.flags, "callbacks": [*run.flags.get("callbacks", []), watch]}
    points = torch.from_numpy(shape.vertices).to(where)
    if settings.held_out and (settings.size or 0) >= len(points):
        settings = replace(settings, held_out=0)
    every = validate_every if settings.held_out else 0
    fit = fit_manifold(points, k, settings, replace(run, validate_every=every, flags=flags))
    step, seconds = watch.reached()
    sample = points[torch.from_numpy(shape.indices).to(where)]
    row: dict[str, Any] = {
        "shape": shape.name,
        "steps": fit.steps,
        "seconds": {**fit.seconds, "train": fit.seconds["train"] - watch.spent},
        "steps_to_1_percent": step,
        "seconds_to_1_percent": seconds,
        "history": watch.history,
        **fit.gaps(),
    }
    for name, ritz in (("feedforward", False), ("ritz", True)):
        basis = fit.basis(sample, ritz=ritz)
        row[name] = shape.agreement(basis.vectors, basis.eigenvalues)
    whole = prepare(sample, fit.frame, fit.probes, settings.objective(), k)
    if whole.smoother.symmetric and whole.smoother.mass is not None:
        q, mu = solve(whole.smoother, k)
        vectors = q / whole.smoother.mass.sqrt()[:, None]
        row["closed form"] = shape.agreement(vectors, rayleigh(mu, whole.smoother.step_time))
    if (printed := published(shape.name)) is not None:
        row["paper"] = {f"cosine_{k}": getattr(printed, f"cosine_{k}") for k in LEVELS}
        row["paper"]["discrepancy"] = printed.discrepancy
    return row, fit


@dataclass
class Overfit:
    """The table: one row a shape that worked, and the reasons of those that did not."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def mean(self, result: str, shapes: Sequence[str] | None = None) -> dict[str, float]:
        """Mean over the shapes of one of `RESULTS`."""
        kept = [r[result] for r in self.rows if r.get(result) and (shapes is None or r["shape"] in shapes)]
        return {key: float(np.mean([r[key] for r in kept])) for key in kept[0]} if kept else {}

    def markdown(self) -> str:
        """Cosines k <= 10 / 20 / 50 and discrepancy of every result, a row a shape and the mean last."""
        head = ["shape", *RESULTS, "loss gap", "steps / s to 1 %", "training s"]
        lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for row in self.rows:
            gap = f"{100 * row['gap']:.2f} %" if "gap" in row else "-"
            step, seconds = row["steps_to_1_percent"], row["seconds_to_1_percent"]
            reached = "-" if step is None else f"{step} / {seconds:.1f}"
            cells = [row["shape"], *(_cell(row.get(name)) for name in RESULTS), gap, reached]
            lines.append("| " + " | ".join([*cells, f"{row['seconds']['train']:.1f}"]) + " |")
        cells = ["mean", *(_cell(self.mean(name)) for name in RESULTS), "", "", ""]
        lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)


def _cell(result: dict[str, float] | None) -> str:
    if not result:
        return "-"
    cosines = "/".join(f"{result[f'cosine_{k}']:.3f}" for k in LEVELS if f"cosine_{k}" in result)
    return f"{cosines}, {result['discrepancy']:.3f}"


def overfit(
    meshes: Iterable[Path],
    *,
    k: int = 50,
    n: int = 4000,
    settings: FitSettings = SETTINGS,
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> Overfit:
    """Fit every mesh; a file that cannot be used is reported and the rest goes on.

    ``n`` is the size of the sample compared; the resamplings trained on have ``settings.size`` points (default 4000
    on a GPU, 1500 on a processor).
    """
    from ..progress import track

    result = Overfit()
    for path in track(sorted(meshes), "fitting shapes"):
        try:
            shape = Reference.of_mesh(path, n, k)
            row, _ = learn_shape(shape, k, replace(settings, seed=seed), device=device)
        except (InputError, OSError) as error:
            result.failed[path.name] = str(error)
            continue
        result.rows.append(row)
    if not result.rows:
        raise InputError(f"expected at least one mesh that can be fitted, got none: {result.failed or 'no files'}")
    return result
