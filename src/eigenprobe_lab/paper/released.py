"""The single-shape experiment as the authors' released configuration has it, where that differs
from their text.

    samples   2500 farthest points (the text: 4000), a new start for every batch
    probes    1000 of U[-1, 1]; per batch k in 10..20 and t in 20..40; per smoothing step one
              sigma in [.01, .2] for all probes:   f = S_t ... S_1 g,   w = exp(-d^2 / sigma^2)
    network   3-32-128-256, 8 post-norm layers, one linear map to K features, torch's own weights
    loss      sum over points, mean over probes and prefixes of |f - P_k f|^2; not divided by the
              energy of the probes (theirs over sqrt(K), of which clipped gradients know nothing)
    schedule  AdamW 1e-3, cosine to 1e-5 over 5000 steps, gradients clipped at .01

The configuration carries no licence: these are its facts, and none of its code.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from eigenprobe.host.tables import Record
from eigenprobe.neighbors.graph import Graph
from eigenprobe.probes import Objective, Probes, seed_signal
from eigenprobe.training import (
    Batch,
    ManifoldData,
    Optimisation,
    RunSettings,
    SpectralModule,
    train,
)
from eigenprobe.training.data import FreshClouds, PaperDraw

from ..evaluation.samples import Sample
from .overfit import RUN, MonitoredRun, feedforward, measure_bases
from .variants import PostNorm

POINTS = 2500
STEPS, NEIGHBOURS, SIGMA = (20, 40), (10, 20), (0.01, 0.2)
PROBES = Probes(1000, steps=STEPS, k=NEIGHBOURS, sigma=SIGMA, vary="step")
SCHEDULE = Optimisation(
    5000, rate=1e-3, final_rate=1e-5, warmup=0, weight_decay=0.01, betas=(0.9, 0.999), clip=0.01
)
METHOD = "the released way"


class Resampled(FreshClouds):
    """A new sampling for every step; neighbours and number of steps are drawn for the batch."""

    def at(self, step: int) -> Batch:
        batch = super().at(step)
        drawn = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        k, steps = (
            int(torch.randint(low, high + 1, (), generator=drawn))
            for low, high in (NEIGHBOURS, STEPS)
        )
        assert isinstance(batch.probes, PaperDraw)
        return replace(batch, probes=partial(smoothed, batch.probes.graph, self.probes, k, steps))


def smoothed(
    graph: Graph, probes: Probes, k: int, steps: int, generator: torch.Generator
) -> Tensor:
    """``(1, n, m)``: noise after some steps of averaging over ``k`` neighbours, each with a sigma
    of its own that all probes share: one sparse matrix per step.
    """
    graph = graph.truncate(k)
    n, (low, high) = graph.n, SIGMA
    signal = seed_signal(n, probes.count, "uniform", graph.distances, generator)
    shares = torch.rand(steps, generator=generator, device=signal.device)
    starts = torch.arange(0, n * k + 1, k, device=signal.device)
    for sigma in low + (high - low) * shares:
        weights = torch.softmax(-(graph.distances / sigma).square(), 1)
        matrix = torch.sparse_csr_tensor(starts, graph.indices.flatten(), weights.flatten(), (n, n))
        signal = matrix @ signal
    return signal[None]


def learn_released(
    sample: Sample,
    k: int = 50,
    run: RunSettings = RUN,
    schedule: Optimisation = SCHEDULE,
    probes: Probes = PROBES,
    points: int = POINTS,
    seed: int = 0,
    **sizes: Any,
) -> list[Record]:
    """Train on the vertices of a sample's shape; rows of the network and of the oracle's vectors.

    ``sizes`` are those of `PostNorm`.
    """
    watched = MonitoredRun(sample, run)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = PostNorm(k, **sizes)
    module = SpectralModule(
        network,
        Objective("sampled", "hybrid"),
        schedule,
        precision="auto",
        accelerate="graph",
        seed=seed,
    )
    cloud = watched.frame(watched.vertices, torch.float32)
    source = Resampled(cloud, probes, min(points, len(cloud)), seed)
    how = replace(watched.run, source={"way": METHOD, "k": str(k)})
    trainer = train(module, ManifoldData(source, steps=schedule.steps), how)
    module.to(run.where).eval()
    q = feedforward(module.network.double(), watched.local.double())
    rows = measure_bases(sample, watched.local, {METHOD: q}, seed, probes)
    rows[0] |= watched.facts(int(trainer.global_step))
    return rows
