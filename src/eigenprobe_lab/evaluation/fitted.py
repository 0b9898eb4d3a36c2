"""One network per shape, our way, against the mesh oracle and the closed form.

    vertices -> fit over farthest-point resamplings -> basis at a fresh sample of n vertices ->
    cosines, eigenvalues

Every shape has three results at the same points: the network feed-forward, after the Ritz rotation
in its span, and the closed form on those points, with whose loss that of the network is compared.
"""

import time
from dataclasses import replace

import torch

from eigenprobe.basis import Basis
from eigenprobe.eigen import solve
from eigenprobe.host.tables import Record
from eigenprobe.training import FitSettings, ProbeSettings, RunSettings, fit_network
from eigenprobe.training.fit import network_basis

from .samples import Sample, agreement, fitted_network
from .surfaces import levels

SAMPLE_SEED = 1000  # of the points compared: apart from the seeds of the resamplings trained on
SETTINGS = FitSettings(probes=ProbeSettings(smoother={"dimension": 2}), resamplings=16, held_out=2)
VALIDATE_EVERY = 25
RUN = RunSettings(device="cpu", validate_every=VALIDATE_EVERY)


def learn_shape(
    sample: Sample, k: int = 50, settings: FitSettings = SETTINGS, run: RunSettings = RUN
) -> tuple[list[Record], Basis]:
    """Fit the vertices of one shape: its rows of the table, and the basis at its vertices."""
    where = run.where
    vertices = torch.as_tensor(sample.shape.vertices, dtype=torch.float32, device=where)
    if settings.size is not None and settings.size >= len(vertices):
        settings = replace(settings, size=len(vertices), held_out=0)
    every = run.validate_every if settings.held_out else 0
    fit = fit_network(vertices, k, settings=settings, run=replace(run, validate_every=every))
    spent = fit.info["seconds"]
    facts = {"steps": fit.info["steps"], "prepare": spent["prepare"], "seconds": spent["train"]}
    facts |= fit.info["feedforward"]
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
    return rows, fit


def _row(
    method: str, sample: Sample, k: int, vectors: torch.Tensor, values: torch.Tensor
) -> Record:
    alignment = sample.compare(vectors.cpu().numpy(), values.cpu().numpy())
    base = {"shape": sample.shape.name, "method": method, "n": len(sample.points)}
    return base | agreement(alignment, levels(k))
