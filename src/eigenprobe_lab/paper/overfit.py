"""The paper's single-shape experiment its own way: its network, probes, loss and schedule, its eigenvalues and mass.

    probes    f = S^40 g, S Gaussian on 10 neighbours, sigma uniform in [.01, .2] for each of 1500, shape of radius 1
    loss      M-projection with M = q_1^2, 2-norm error, mean over probes and prefixes; QR of 50 features
    samples   4000 farthest points from a new start at every step;   AdamW 1e-3 to 1e-5 over 5000 of 12 000 steps
    results   V = Q / q_1,  mass q_1^2,  lambda_{k+1} = 1 / max_i e_k^(i), probes of fixed or tuned (k, steps, sigma)

Beside the trained network stand the same one untrained, polynomials of its input, and the closed form of its own probes
(PCA of drawn ones: no other basis leaves less of them in the 2-norm). Worst errors know eigenvalues up to a factor:
each spectrum is scaled to the sum of the oracle's, the best any scale-free estimate can be given.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenprobe import networks
from eigenprobe.cloud import Frame
from eigenprobe.errors import InputError
from eigenprobe.evaluation import mass_correlation
from eigenprobe.extensions.network import NetworkExtension
from eigenprobe.probes.estimates import rayleigh, worst
from eigenprobe.probes.objective import nested_basis, prefix_errors
from eigenprobe.probes.probes import Probes
from eigenprobe.smoothers import build_smoother
from eigenprobe.training.data import Batch, ProbeSettings
from eigenprobe.training.fit import FitSettings, fit_network
from eigenprobe.training.module import Optimisation
from eigenprobe.training.runs import OracleCosine, RunSettings

from ..evaluation.samples import Sample, agreement
from ..evaluation.surface_report import levels
from ..evaluation.unseen import polynomials
from .published import FIXED, tuned

SETTINGS = FitSettings(
    smoother="row",
    loss="sampled",
    probes=ProbeSettings("row", paper=Probes(1500, steps=40, k=10, sigma=(0.01, 0.2))),
    preset="overfit",
    optimisation=Optimisation(
        12_000, rate=1e-3, final_rate=1e-5, warmup=0, anneal=5000, betas=(0.9, 0.999), weight_decay=0.01, clip=0.01
    ),
    resamplings="fresh",
    size=4000,
    ritz=False,
    reference=False,
)
RUN = RunSettings(device="cpu", validate_every=500)
DRAWS = 4  # of as many probes as a training step sees, for the closed form of the probes


def learn_their_way(
    sample: Sample, k: int = 50, settings: FitSettings = SETTINGS, run: RunSettings = RUN
) -> list[dict[str, Any]]:
    """Train as the paper does and measure at the sample: rows of the trained network, its controls and closed form.

    The cosines with the oracle are kept at every ``validate_every`` steps of the run.
    """
    where = run.where
    vertices = torch.as_tensor(sample.shape.vertices, dtype=torch.float32, device=where)
    settings = replace(settings, size=None if settings.size is None else min(settings.size, len(vertices)))
    frame = Frame.of(vertices)
    local = frame(torch.as_tensor(sample.points, device=where), torch.float32)
    cosines = OracleCosine([(Batch(local[None]), torch.as_tensor(sample.vectors))], run.validate_every)
    started = time.perf_counter()
    fit = fit_network(vertices, k, settings=settings, run=replace(run.watched(cosines), validate_every=0))
    assert isinstance(fit.extension, NetworkExtension) and settings.probes.paper is not None
    facts = {"steps": fit.info["steps"], "seconds": time.perf_counter() - started, "history": cosines.history}
    untrained = networks.build(settings.preset or "overfit", 3, k, torch.Generator().manual_seed(settings.seed + 1))
    wide = local.double()
    bases = {
        "the paper's way": _feedforward(fit.extension.network, wide),
        "random weights": _feedforward(untrained.to(where).double().eval(), wide),
        "polynomials": nested_basis(polynomials(wide, k)),
        "closed form of its probes": best_of_probes(local, settings.probes.paper, k, settings.seed),
    }
    measure = Estimators(sample, local, k, settings.seed)
    rows = [measure(name, q) for name, q in bases.items()]
    rows[0] |= facts
    return rows


@torch.no_grad()
def _feedforward(network: torch.nn.Module, points: Tensor) -> Tensor:
    """``Q (n, K)`` of one pass over the points themselves."""
    return nested_basis(network(points[None])[0])


@torch.no_grad()
def best_of_probes(points: Tensor, probes: Probes, k: int, seed: int) -> Tensor:
    """The leading ``k`` eigenvectors ``(n, k)`` of the empirical covariance of drawn probes."""
    generator, graph = torch.Generator(points.device).manual_seed(seed), probes.graph(points)
    covariance = torch.zeros(len(points), len(points), dtype=torch.float64, device=points.device)
    for _ in range(DRAWS):
        drawn = probes.draw(graph, generator).double()
        covariance += drawn @ drawn.T
    return torch.linalg.eigh(covariance).eigenvectors.flip(-1)[:, :k]


class Estimators:
    """Cosines, eigenvalues by three estimators, and the mass, of bases ``q (n, K)`` at the points of a sample."""

    def __init__(self, sample: Sample, local: Tensor, k: int, seed: int) -> None:
        self.sample, self.levels, self.sum = sample, levels(k), float(sample.eigenvalues[:k].sum())
        self.probes = {}
        for name, (neighbours, steps, sigma) in {"tuned": tuned(sample.shape.name), "fixed": FIXED}.items():
            inference = Probes(1500, steps=steps, k=min(neighbours, len(local) - 1), sigma=sigma)
            generator = torch.Generator(local.device).manual_seed(seed)
            self.probes[name] = inference.draw(local, generator).double()
        self.row = build_smoother(local.double(), "row", k=15, dimension=2)
        self.adaptive = build_smoother(local.double(), "adaptive", dimension=2)

    def __call__(self, method: str, q: Tensor) -> dict[str, Any]:
        mass, vectors = q[:, 0].square(), (q / q[:, :1]).cpu().numpy()
        if not np.isfinite(vectors).all():
            raise InputError(f"{method}: expected a first vector without zeros, got one that vanishes at a point")
        spectra = {name: worst(prefix_errors(q, probes, mass)) for name, probes in self.probes.items()}
        spectra["rayleigh"] = rayleigh((q * self.row.apply(q)).sum(0), self.row.step_time)
        found = {}
        for name, values in spectra.items():
            scaled = (values * (self.sum / values.sum())).cpu().numpy()
            found[name] = agreement(self.sample.compare(vectors, scaled), self.levels)
        areas, known = self.sample.areas, self.adaptive.mass
        assert known is not None
        return {
            "shape": self.sample.shape.name,
            "method": method,
            "n": len(q),
            **found["tuned"],
            **{f"discrepancy_{name}": found[name]["discrepancy"] for name in ("fixed", "rayleigh")},
            "mass_correlation": mass_correlation(mass.cpu().numpy(), areas),
            "mass_correlation_adaptive": mass_correlation(known.cpu().numpy(), areas),
        }
