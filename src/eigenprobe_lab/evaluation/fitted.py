"""One network per shape, our way, against the mesh oracle and the closed form.

    vertices -> fit over farthest-point resamplings -> basis at a fresh sample of n vertices ->
    cosines, eigenvalues

Every shape has three results at the same points: the network feed-forward, after the Ritz rotation
in its span, and the closed form on those points, with whose loss that of the network is compared.
"""

import time
from dataclasses import replace

import numpy as np
import torch

from eigenprobe.basis import Basis
from eigenprobe.cloud.cloud import Cloud
from eigenprobe.eigen import solve
from eigenprobe.extensions import NetworkExtension
from eigenprobe.host.tables import Record
from eigenprobe.training import FitSettings, ProbeSettings, RunSettings, fit_network
from eigenprobe.training.data import prepare, resample
from eigenprobe.training.fit import network_basis

from .samples import Sample, agreement, fitted_network
from .surfaces import levels

SAMPLE_SEED = 1000  # of the points compared: apart from the seeds of the resamplings trained on
SETTINGS = FitSettings(probes=ProbeSettings(smoother={"dimension": 2}), resamplings=16)
HELD_OUT = 1500  # points of the resamplings on which the loss is measured
RUN = RunSettings(device="cpu")


def learn_shape(
    sample: Sample, k: int = 50, settings: FitSettings = SETTINGS, run: RunSettings = RUN
) -> tuple[list[Record], Basis]:
    """Fit the vertices of one shape: its rows of the table, and the basis at its vertices."""
    where = run.where
    vertices = torch.as_tensor(sample.shape.vertices, dtype=torch.float32, device=where)
    if settings.size is not None and settings.size >= len(vertices):
        settings = replace(settings, size=len(vertices))
    fit = fit_network(vertices, k, settings=settings, run=run)
    spent = fit.info["seconds"]
    facts = {"steps": fit.info["steps"], "prepare": spent["prepare"], "seconds": spent["train"]}
    points = torch.as_tensor(sample.points, dtype=torch.float32, device=where)
    whole, cloud = settings.all_probes().build(points), Cloud.plain(points.double())
    function, rows = fitted_network(fit), []
    facts |= distance_to_optimum(function, vertices, k, settings)
    for name, ritz in (("feedforward", False), ("ritz", True)):
        basis = network_basis(function, cloud, whole, ritz=ritz)
        rows.append(_row(name, sample, k, basis.vectors, basis.eigenvalues) | facts)
    started = time.perf_counter()
    if whole.symmetric:
        q, gaps, *_ = solve(whole, k)
        row = _row("closed form", sample, k, q / whole.mass.sqrt()[:, None], gaps / whole.step_time)
        rows.append(row | {"seconds": time.perf_counter() - started})
    return rows, fit


@torch.no_grad()
def distance_to_optimum(
    function: NetworkExtension, points: torch.Tensor, k: int, settings: FitSettings
) -> Record:
    """The mean expected loss of a network on resamplings that it was not trained on, the smallest
    possible one, and the gap between them.

    That of a symmetric smoother is the loss of its leading eigenvectors; for ``row`` it is that of
    the PCA of ``S^t (S^t)^T``, a lower bound of the hybrid loss.
    """
    objective, losses, frame = settings.objective(), [], settings.frame(points)
    if objective.kind != "expected":
        return {}
    size = min(settings.size or HELD_OUT, len(points))
    for x in resample(points, size, 2, settings.seed + 1):
        batch = prepare(x, frame, settings.all_probes(), objective, k)
        if batch.smoother.symmetric:
            best = solve(batch.smoother, k).vectors
        else:
            best = torch.linalg.eigh(batch.covariance.matrix.double()).eigenvectors.flip(-1)[:, :k]
        own = batch.losses(objective, function.network(batch.points.double()))
        euclidean = replace(objective, projection="euclidean")
        given = {"covariance": batch.covariance.apply, "trace": batch.trace}
        losses.append((float(own), float(euclidean(best.float()[None], **given))))
    loss, optimum = np.mean(losses, axis=0).tolist()
    return {"loss": loss, "optimum": optimum, "gap": loss / optimum - 1}


def _row(
    method: str, sample: Sample, k: int, vectors: torch.Tensor, values: torch.Tensor
) -> Record:
    alignment = sample.compare(vectors.cpu().numpy(), values.cpu().numpy())
    base = {"shape": sample.shape.name, "method": method, "n": len(sample.points)}
    return base | agreement(alignment, levels(k))
