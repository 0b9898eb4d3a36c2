"""The paper's toy: five functions on the unit interval, learned, against the cosines.

    x_i = i / 99;   f = S^10 g, S Gaussian on 16 neighbours;   MLP 1-64-64-64-5, ReLU
    Adam at 1e-2, times 0.1 at 30 % and again at 70 % of the steps
    expected: v_i(x) = cos(pi (i - 1) x),  i = 1..5

Two losses: the paper's (M-projection, 2-norm error, batches of m = 500 000 probes) and the expected
one. The paper's loss of a batch F (n, m) depends on F through F F^T / m alone, so a batch is kept
as that n x n matrix: the same number, exactly, at m / n = 5000 times less work per step.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from eigenprobe import networks
from eigenprobe.basis import Basis
from eigenprobe.extensions import NetworkExtension
from eigenprobe.points import Frame
from eigenprobe.probes import DenseCovariance, Objective, seed_signal
from eigenprobe.smoothers import Smoother
from eigenprobe.training import Optimisation, RunSettings, SpectralModule, train
from eigenprobe.training.data import Batch, ManifoldData, Pool, ProbeSettings, prepare
from eigenprobe.training.fit import network_basis
from eigenprobe_lab.evaluation.reports import Report, markdown

POINTS, VECTORS, NEIGHBOURS, SIGMA, STEPS = 100, 5, 16, 0.05, 10
PROBES = 500_000
BATCHES = 4  # of probes, used in turn
BLOCK = 50_000  # probes held at once while F F^T is summed
FUNCTIONS = ("constant", "cos pi x", "cos 2 pi x", "cos 3 pi x", "cos 4 pi x")
LOSSES = {"paper": "hybrid loss, sampled probes", "expected": "expected loss"}


@dataclass(frozen=True)
class ToyRecipe:
    """The size of a run; ``probes`` are those of one batch of the paper's loss."""

    seed: int = 0
    steps: int = 1500
    probes: int = PROBES


@dataclass(frozen=True)
class Toy(Report):
    """What was learned with each loss: a row of |cosine| with each function, and a basis of (100,
    5) vectors.
    """

    bases: dict[str, Basis] = field(default_factory=dict)

    def markdown(self) -> str:
        return markdown(self.rows, digits=4, formats={"seconds": ".1f"})

    def write(self, folder: Path, name: str) -> Self:
        """Also the figure: every vector over its cosine."""
        written = Report.write(self, folder, name)
        return replace(written, written=(figure(self, folder / f"{name}.png"), *written.written))


def reference(points: Tensor) -> Tensor:
    """The Neumann eigenfunctions of the interval, unit columns ``(n, 5)``."""
    columns = torch.cos(torch.pi * points.double() * torch.arange(VECTORS, dtype=torch.float64))
    return columns / columns.norm(dim=0)


def empirical_covariance(
    smoother: Smoother, probes: int, generator: torch.Generator
) -> DenseCovariance:
    """``F F^T / m`` of ``m`` drawn probes ``F = S^t G``, as ``S^t (G G^T / m) (S^t)^T`` with G
    drawn in blocks.
    """
    total, done = torch.zeros(smoother.n, smoother.n, dtype=torch.float64), 0
    while done < probes:
        noise = seed_signal(
            smoother.n, min(BLOCK, probes - done), "uniform", torch.empty(0), generator
        )
        total += (noise @ noise.T).double()
        done += noise.shape[1]
    power = torch.linalg.matrix_power(smoother.matrix.to_dense(), STEPS)
    return DenseCovariance((power @ (total / probes) @ power.T).float().unsqueeze(0))


def toy1d(
    recipe: ToyRecipe, losses: Sequence[str] = tuple(LOSSES), run: RunSettings | None = None
) -> Toy:
    """Learn the interval with each of some losses, on the processor; a folder of ``run`` keeps a
    checkpoint of each.

    >>> min(toy1d(ToyRecipe()).rows[0][name] for name in FUNCTIONS) > 0.99  # doctest: +SKIP
    True
    """
    points = torch.linspace(0, 1, POINTS, dtype=torch.float64).unsqueeze(1)
    frame = Frame.of(points)
    settings = ProbeSettings(
        "row", steps=STEPS, smoother={"k": NEIGHBOURS, "bandwidth": SIGMA, "dimension": 1}
    )
    seed, steps = recipe.seed, recipe.steps
    generator = torch.Generator().manual_seed(seed)
    whole = prepare(points, frame, settings, Objective(), VECTORS, generator)
    smoother, toy = whole.smoother, Toy([], facts=asdict(recipe))
    for name in losses:
        started = time.perf_counter()
        covariances = [
            DenseCovariance(whole.covariance.matrix.unsqueeze(0) / 3)
        ]  # the variance of U[-1, 1]
        if name == "paper":
            covariances = [
                empirical_covariance(smoother, recipe.probes, generator) for _ in range(BATCHES)
            ]
        pool = Pool([Batch(whole.points, covariance=c) for c in covariances], seed)
        how = replace(
            run or RunSettings(), device="cpu", logs=False, source={"recipe": str(toy.facts)}
        )
        network = networks.build("toy", 1, VECTORS, torch.Generator().manual_seed(seed))
        schedule = Optimisation(
            steps, rate=1e-2, warmup=0, schedule="step", betas=(0.9, 0.999), clip=0.0
        )
        module = SpectralModule(
            network, Objective("expected", "hybrid", relative=True), schedule, log_every=200
        )
        train(
            module,
            ManifoldData(pool, steps=steps),
            replace(how, folder=how.folder and how.folder / name),
        )
        function = NetworkExtension(network.eval(), frame, whole.points[0], learned_mass=True)
        basis = network_basis(function, points, smoother, ritz=False)
        toy.bases[name] = replace(
            basis, points=points, info={"method": "network", "experiment": "toy1d"}
        )
        cosines = (
            (basis.vectors / basis.vectors.norm(dim=0) * reference(points)).sum(0).abs().tolist()
        )
        scores = dict(zip(FUNCTIONS, cosines, strict=True))
        toy.rows.append({"loss": LOSSES[name], **scores, "seconds": time.perf_counter() - started})
    return toy


def figure(toy: Toy, path: Path) -> Path:
    """The first five vectors against the cosines, one panel each."""
    from eigenprobe.viz.drawing import canvas

    points = torch.as_tensor(next(iter(toy.bases.values())).points)
    target = reference(points).numpy() * POINTS**0.5
    with canvas(2.4 * VECTORS, 2.4, path) as drawing:
        for i, axes in enumerate(drawing.subplots(1, VECTORS)):
            axes.plot(points, target[:, i], color="0.75", linewidth=5, label="cosine")
            for (name, basis), style in zip(toy.bases.items(), ("C0-", "C3--"), strict=False):
                v = basis.numpy().vectors[:, i]
                axes.plot(
                    points,
                    v / np.linalg.norm(v) * POINTS**0.5 * np.sign(v @ target[:, i]),
                    style,
                    label=name,
                )
            cosines = " / ".join(f"{row[FUNCTIONS[i]]:.4f}" for row in toy.rows)
            axes.set_title(f"$v_{i + 1}$   {cosines}")
        drawing.axes[0].set_ylim(-2, 2)
        drawing.axes[0].legend(fontsize=8)
    return path
