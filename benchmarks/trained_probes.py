"""Probes learned while the network trains on them: the distributions of sigma and of steps.

    sigma    in one of 8 bins of the paper's range, evenly inside it     P(bin)   = softmax(a)
    steps    one of 10, 20, 40                                           P(steps) = softmax(b)
    l_i(Z)   mean over the prefixes of |f_i - P_k f_i|^2 / |f_i|^2, for each probe f_i of a step
    update   a_j += rate (mean of w over bin j - mean of w), b alike: the natural gradient of E[w],
             w standardised

    descent  w = -l: the training loss itself, over its parameters too
    ascent   w = l: the min-max form of the theorem, probes that are rebuilt worst
    task     w_i = l_i(Z) - l_i(Z - eps dT/dZ): whether a step that rebuilds polynomials of the
             coordinates better (T is their error) rebuilds probe i better, too; no oracle is used

[P] proposes to learn sigma by descent because probes depend differentiably on it. A derivative
through 40 smoothing steps is not needed: the gradient of an expectation over sigma asks for the
errors of the drawn probes only.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from eigenprobe import networks
from eigenprobe.errors import InputError
from eigenprobe.host.device import graphed
from eigenprobe.host.files import write_npz
from eigenprobe.neighbors.graph import Graph
from eigenprobe.probes import Probes, first_mass, prefix_errors
from eigenprobe.training import Batch, FitSettings, ManifoldData, RunSettings, SpectralModule, train
from eigenprobe.training.data import FreshClouds, PaperDraw
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.evaluation.unseen import polynomials
from eigenprobe_lab.paper.overfit import RUN, SETTINGS, MonitoredRun, feedforward, measure_bases

BINS = 8
STEPS = (10, 20, 40)
START = (0.1, 0.1, 0.8)  # of the steps: near the paper's 40, with some of each to learn from
RATE = 0.005
EPSILON = 0.01  # length of the trial step along the gradient of the task, relative to the features
TASK = 20  # polynomials of the coordinates, the constant among them
Rule = Literal["descent", "ascent", "task"]


class LearnedProbes(torch.nn.Module):
    """Logits of the bins of sigma and of the steps; no gradients: `update` is called with a weight
    for each probe.
    """

    def __init__(self, paper: Probes) -> None:
        super().__init__()
        if not isinstance(paper.sigma, tuple) or not isinstance(paper.k, int):
            raise InputError(
                "expected probes with a range of sigma and one k, "
                f"got {paper.sigma!r} and {paper.k!r}"
            )
        self.paper, (self.low, self.high) = paper, paper.sigma
        self.bandwidths: Tensor
        self.lengths: Tensor
        self.register_buffer("bandwidths", torch.zeros(BINS))
        self.register_buffer("lengths", torch.tensor(START).log())

    def draw(
        self, graph: Graph, generator: torch.Generator | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Probes ``(n, m)`` on a graph, and for each its bin of sigma and its place in `STEPS`."""
        m, stages = (
            self.paper.count,
            [replace(self.paper, steps=b - a) for a, b in zip((0, *STEPS), STEPS)],
        )
        signal, _, indices, distances = stages[0].seeds(graph, generator)
        chosen, place = (
            torch.multinomial(logits.softmax(0), m, replacement=True, generator=generator)
            for logits in (self.bandwidths, self.lengths)
        )
        inside = torch.rand(m, generator=generator, device=signal.device)
        sigma = self.low + (self.high - self.low) * (chosen + inside) / BINS
        for index, stage in enumerate(stages):
            signal = torch.where(
                place >= index, stage.smooth(signal, sigma, indices, distances), signal
            )
        return signal, (chosen, place)

    @torch.no_grad()
    def update(self, cells: tuple[Tensor, Tensor], weights: Tensor, rate: float = RATE) -> None:
        """One step of both distributions towards larger ``weights (m,)``."""
        w = ((weights - weights.mean()) / weights.std().clamp_min(1e-12)).to(self.bandwidths)
        for logits, cell in zip((self.bandwidths, self.lengths), cells, strict=True):
            sums = torch.zeros_like(logits).index_add_(0, cell, w)
            counts = torch.zeros_like(logits).index_add_(0, cell, torch.ones_like(w))
            logits += rate * torch.nan_to_num(sums / counts.clamp_min(1))

    def facts(self) -> dict[str, Any]:
        """Both distributions and their means."""
        p, t = (logits.double().softmax(0).cpu() for logits in (self.bandwidths, self.lengths))
        middles = (
            self.low
            + (self.high - self.low) * (torch.arange(BINS, dtype=torch.float64) + 0.5) / BINS
        )
        means = {
            "mean sigma": float(p @ middles),
            "mean steps": float(t @ torch.tensor(STEPS, dtype=torch.float64)),
        }
        return {
            **means,
            "sigma": dict(zip([f"{s:.3f}" for s in middles], p.tolist())),
            "steps drawn": t.tolist(),
        }


class ProbesModule(SpectralModule):
    """The single-shape training with the probes' distribution updated at every step."""

    def __init__(self, network: torch.nn.Module, paper: Probes, rule: Rule, **options: Any) -> None:
        super().__init__(network, **options)
        self.learned, self.rule = LearnedProbes(paper), rule

    def capture(self, batch: Batch) -> None:
        """The network alone as CUDA graphs: what is drawn changes its shape by step."""
        if self.accelerate == "graph" and batch.points.is_cuda:
            self.mixed.train()
            graphed(self.mixed, batch.points.clone())

    def loss(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """The paper's loss of the probes drawn, after which their distribution has taken a step."""
        assert isinstance(batch.probes, PaperDraw)
        features = self(batch.points)
        with torch.autocast(features.device.type, enabled=False):
            z = batch.weigh(features)
            probes, cells = self.learned.draw(batch.probes.graph, generator)
            errors, energy = _errors(z, probes), probes.double().square().sum(0)
            if torch.is_grad_enabled():
                share = (errors / energy).detach()
                self.learned.update(cells, self._weights(z, batch.points[0], probes, share, energy))
        return (errors.mean() / energy.mean())[None]

    def _weights(
        self, z: Tensor, points: Tensor, probes: Tensor, share: Tensor, energy: Tensor
    ) -> Tensor:
        if self.rule != "task":
            return share if self.rule == "ascent" else -share
        at = z.detach().requires_grad_()
        wanted = polynomials(points.double(), TASK)[:, 1:].float()
        task = (_errors(at, wanted) / wanted.double().square().sum(0)).mean()
        (direction,) = torch.autograd.grad(task, at)
        length = EPSILON * at.detach().norm() / direction.norm().clamp_min(1e-12)
        with torch.no_grad():
            return share - _errors(at - length * direction, probes) / energy


def _errors(z: Tensor, functions: Tensor) -> Tensor:
    """Squared error ``(m,)`` of each function ``(n, m)``, mean over the prefixes of the features
    ``(1, n, K)``.
    """
    return prefix_errors(z, functions[None], first_mass(z)).mean(-2)[0]


def train_and_measure(
    sample: Sample,
    rule: Rule | None = None,
    k: int = 50,
    settings: FitSettings = SETTINGS,
    run: RunSettings = RUN,
    vectors: Path | None = None,
) -> list[dict[str, Any]]:
    """Rows of a network trained as `learn_their_way` does and of the oracle's vectors, without the
    other controls and without a basis at all points; with a ``rule``, on probes whose distribution
    is learned by it. Its orthonormal vectors at the sample are written to the file ``vectors``."""
    preset, paper, gpu = (
        settings.preset or "overfit",
        settings.probes.paper,
        run.where.type == "cuda",
    )
    assert paper is not None
    watched = MonitoredRun(sample, run)
    vertices, local = watched.vertices, watched.local
    network = networks.build(preset, 3, k, torch.Generator().manual_seed(settings.seed))
    options: dict[str, Any] = {
        "precision": "auto",
        "accelerate": "graph",
        "objective": settings.objective(),
        "optimisation": settings.schedule(preset),
        "seed": settings.seed,
    }
    module = (
        ProbesModule(network, paper, rule, **options)
        if rule
        else SpectralModule(network, **options)
    )
    source = FreshClouds(
        watched.frame(vertices, torch.float32),
        paper,
        min(settings.size or len(vertices), len(vertices)),
        settings.seed,
    )
    how = replace(watched.run, source={"rule": str(rule), "k": str(k)})
    trainer = train(module, ManifoldData(source, steps=module.optimisation.steps), how)
    module.to(run.where).eval()
    # Attention in double precision would take gigabytes on a device that several runs share.
    q = (
        feedforward(module.network, local)
        if gpu
        else feedforward(module.network.double(), local.double())
    )
    rows = measure_bases(sample, local, {"the paper's way": q}, settings.seed)
    learned = module.learned.facts() if isinstance(module, ProbesModule) else None
    rows[0] |= watched.facts(int(trainer.global_step)) | {"rule": rule, "learned": learned}
    if vectors is not None:
        write_npz(vectors, {"q": q.float().cpu().numpy()}, compressed=True)
    return rows
