"""Eigenvalues by reconstruction errors, with the oracle's own vectors: what the estimator can do.

    lambda_{k+1} = c / r(e_k),   e_k (m,) = |f - P_k f|^2 of m probes on the first k vectors

    python -m benchmarks.eigenvalues SAMPLES... [--m 1000] [--device cuda]

SAMPLES are what `benchmarks.paper prepare` wrote.  Readings of r: the largest or the mean, of e or
of its root.  Readings of c: none, with e summed or averaged over the points and the shape of
radius one; the sum of the oracle's eigenvalues; the factor of least discrepancy for the shape.
Probes: the triple (neighbours, steps, sigma) that the paper tuned for the shape, its fixed one,
and the triple of `GRID` that is best for the shape and the reading, which is a search against the
oracle; sigma of the last may be drawn for every smoothing step.  The discrepancy is the mean of
|found - exact| / exact over all but the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.record import best_device, existing, facts, write
from eigenprobe.points import Frame
from eigenprobe.probes import Probes
from eigenprobe.probes.objective import prefix_errors
from eigenprobe_lab.evaluation.reports import grouped, markdown, mean_row
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.paper.published import FIXED, single_shape, tuned

STEPS = (20, 30, 40, 60, 80, 100, 120)
GRID = tuple(product((10, 15, 20, 30, 45, 70), (0.05, 0.08, 0.12, 0.16, 0.2, 0.27, (0.01, 0.2))))
Sigma = float | tuple[float, float]


def smoothed(
    points: Tensor, k: int, sigma: Sigma, steps: tuple[int, ...], m: int, seed: int = 0
) -> Iterator[tuple[int, Tensor]]:
    """Probes ``(n, m)`` after each number of steps; a range of sigma is drawn for every step."""
    generator = torch.Generator(points.device).manual_seed(seed)
    graph = Probes(k=min(k, len(points) - 1)).graph(points)
    signal = 2 * torch.rand(len(points), m, generator=generator, device=points.device) - 1
    starts = torch.arange(0, graph.indices.numel() + 1, graph.k, device=points.device)
    for step in range(1, max(steps) + 1):
        if step == 1 or isinstance(sigma, tuple):
            width = sigma
            if isinstance(sigma, tuple):
                share = torch.rand((), generator=generator, device=points.device)
                width = sigma[0] + (sigma[1] - sigma[0]) * share
            weights = torch.softmax(-(graph.distances / width).square(), 1)
            values = (starts, graph.indices.flatten(), weights.flatten())
            matrix = torch.sparse_csr_tensor(*values, (len(points), len(points)))
        signal = matrix @ signal
        if step in steps:
            yield step, signal


def discrepancies(errors: Tensor, exact: np.ndarray, n: int) -> dict[tuple[str, str], float]:
    """By reading of r and of c, of errors ``(K, m)``."""
    found = {}
    for squared, e in (("squared errors", errors), ("errors", errors.clamp_min(0).sqrt())):
        for over, r in (("largest", e.amax(1)), ("mean", e.mean(1))):
            values = (1 / r.cummin(0).values[:-1]).cpu().numpy()  # of vectors 2, ..., K
            target = exact[1:]
            points = n if squared == "squared errors" else n**0.5
            factors = {
                "none, sum over points": 1.0,
                "none, mean over points": points,
                "oracle's sum": target.sum() / values.sum(),
                "best factor": best_factor(values, target),
            }
            for scale, factor in factors.items():
                found[f"{over} of {squared}", scale] = float(
                    np.mean(np.abs(factor * values - target) / target)
                )
    return found


def best_factor(values: np.ndarray, exact: np.ndarray) -> float:
    """The c of least mean |c values - exact| / exact: a weighted median."""
    ratios = values / exact
    order = np.argsort(1 / ratios)
    middle = np.searchsorted(np.cumsum(ratios[order]), ratios.sum() / 2)
    return float(1 / ratios[order][middle])


def measure(sample: Sample, m: int, device: str) -> list[dict[str, Any]]:
    """A row for each pair of readings."""
    frame = Frame.of(torch.as_tensor(sample.shape.vertices, dtype=torch.float32, device=device))
    points = frame(torch.as_tensor(sample.points, device=device), torch.float32)
    exact = sample.eigenvalues * float(frame.scale) ** 2  # of the shape of radius one
    q = torch.linalg.qr(torch.as_tensor(sample.vectors, device=device).double()).Q

    def tried(k: int, sigma: Sigma, steps: tuple[int, ...]) -> dict[int, Any]:
        return {
            step: discrepancies(prefix_errors(q, f.double()), exact, len(points))
            for step, f in smoothed(points, k, sigma, steps, m)
        }

    alone = {}
    for name, (k, steps, sigma) in {
        "published triple": tuned(sample.shape.name),
        "fixed triple": FIXED,
    }.items():
        alone[name] = tried(k, sigma, (steps,))[steps]
    searched = [
        (f"k {k}, {step} steps, sigma {sigma}", found)
        for k, sigma in GRID
        for step, found in tried(k, sigma, STEPS).items()
    ]
    rows = []
    for reading, scale in alone["fixed triple"]:
        best, where = min((found[reading, scale], name) for name, found in searched)
        row = {"shape": sample.shape.name, "one over": reading, "factor": scale}
        row |= {name: found[reading, scale] for name, found in alone.items()}
        rows.append(row | {"best triple": best, "where": where})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("samples", type=existing, nargs="+")
    parser.add_argument("--m", type=int, default=1000)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--device", default=best_device())
    o = parser.parse_args()
    rows = []
    for path in o.samples:
        sample = Sample.load(path, o.k)
        rows += [
            row | {"published": single_shape(sample.shape.name)["discrepancy"]}
            for row in measure(sample, o.m, o.device)
        ]
        print(f"{path.stem} done", flush=True)
    means = [
        mean_row(group, **{"one over": reading, "factor": scale}) | {"shapes": len(group)}
        for (reading, scale), group in grouped(rows, "one over", "factor").items()
    ]
    print(markdown(means))
    about = facts("eigenvalues", o.device, o)
    write("paper_eigenvalues.json", about | {"rows": means, "shapes": rows})


if __name__ == "__main__":
    main()
