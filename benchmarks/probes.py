"""What the choice of probes and of the loss changes: learned probes, losses, mass.

    python -m benchmarks.probes learned|losses|mass MESHES... [--n 800] [--k 50] [--steps 200]

learned    the paper's row probes: default bandwidth, its .101, learned by the geometry of a
           smoothing step, which sees no oracle
losses     one small network trained on the paper's probes with each loss: cosines, learned mass
mass       clouds three times as dense at one end as at the other: q_1^2 against true area, and
           the loss of the paper's probes with an even mass and with the true one

All against the mesh oracle, which is used to measure only. Means over the shapes; rows by shape are
in the JSON.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.bandwidth import learned_sigma
from benchmarks.record import existing, facts, write
from eigenprobe import decompose, geometry
from eigenprobe.errors import InputError
from eigenprobe.points import Frame
from eigenprobe.probes.objective import expected_errors
from eigenprobe.probes.probes import Probes
from eigenprobe.smoothers import build_smoother
from eigenprobe.training import FitSettings, ProbeSettings, fit_network
from eigenprobe_lab.evaluation.areas import mass_correlation, nearest_sample_areas
from eigenprobe_lab.evaluation.fitted import SAMPLE_SEED
from eigenprobe_lab.evaluation.reports import grouped, markdown, mean_row
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.evaluation.surfaces import levels
from eigenprobe_lab.paper.overfit import covariance
from eigenprobe_lab.paper.published import NINE

LOSSES = {
    "hybrid (the paper's)": ("hybrid", "mean"),
    "Euclidean": ("euclidean", "mean"),
    "M-norm": ("mass", "mean"),
    "hybrid, worst probe (min-max)": ("hybrid", "worst"),
}


def learned(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    points, k = torch.as_tensor(sample.points, dtype=torch.float64), min(o.k, 20)
    sigmas = {"default": None, "the paper's .101": 0.101 * Frame.of(points).scale}
    sigmas["learned: geometry of a step"] = learned_sigma(points)
    rows = []
    for name, sigma in sigmas.items():
        options = {"smoother": "row", "neighbours": 15, "bandwidth": sigma, "dimension": 2}
        rows.append(
            {"row probes": name, "basis": decompose(sample.points, k, **options).normalized}
        )
    for row in rows:
        aligned = sample.compare(row.pop("basis"), np.zeros(k))
        row |= {f"k≤{i}": aligned.cosine(i) for i in levels(k)}
    return rows


def losses(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    paper = Probes(200, steps=20, k=10, sigma=(0.05, 0.3))
    base = FitSettings(
        smoother="row",
        loss="sampled",
        probes=ProbeSettings("row", paper=paper),
        preset="cpu",
        resamplings="fresh",
    )
    for name, (projection, probe) in LOSSES.items():
        settings = replace(
            base, projection=projection, probe=probe, size=o.n // 2, steps=o.steps, ritz=False
        )
        row: dict[str, Any] = {"loss": name}
        points = torch.as_tensor(sample.points, dtype=torch.float32)
        try:
            basis = fit_network(points, min(o.k, 20), settings=settings).numpy()
            found = sample.compare(basis.vectors, basis.eigenvalues)
            row |= {f"k≤{i}": found.cosine(i) for i in levels(basis.k)}
            row |= {"mass~area": mass_correlation(basis.mass, sample.areas), "failed": 0}
            row["largest mass over mean"] = float(basis.mass.max() * len(basis.mass))
        except InputError:  # the features became dependent, or every batch was skipped
            row["failed"] = 1
        rows.append(row)
    return rows


def mass(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    generator = np.random.default_rng(0)
    height = (
        sample.points
        @ np.linalg.svd(sample.points - sample.points.mean(0), full_matrices=False)[2][0]
    )
    share = (height - height.min()) / np.ptp(height)
    weights = 3.0**share / (3.0**share).sum()
    chosen = np.sort(generator.choice(len(sample.points), o.n // 2, replace=False, p=weights))
    points = sample.points[chosen]
    areas = nearest_sample_areas(sample.shape, points)
    local = Frame.of(torch.as_tensor(points))(torch.as_tensor(points), torch.float64)
    probes = Probes(200, steps=20, k=10, sigma=(0.05, 0.3))
    exact, k = covariance(local, probes), min(o.k, 20)
    best = torch.linalg.eigh(exact).eigenvectors.flip(-1)[:, : k - 1]
    known = torch.as_tensor(areas / areas.sum())
    settings = FitSettings(
        smoother="row",
        loss="sampled",
        probes=ProbeSettings("row", paper=probes),
        preset="cpu",
        resamplings=1,
    )
    settings = replace(settings, steps=o.steps, ritz=False)
    trained = fit_network(local.float(), k, settings=settings)
    adaptive = build_smoother(local, "adaptive", dimension=2).mass
    masses = {
        "even": torch.full_like(known, 1 / len(known)),
        "true area": known,
        "first vector of the probes' closed form": best[:, 0].square(),
        "learned: the paper's network": torch.as_tensor(trained.mass).double().cpu(),
        "ours: adaptive smoother": adaptive / adaptive.sum(),
    }
    rows = []
    for name, m in masses.items():
        q = torch.linalg.qr(torch.cat([m.sqrt()[:, None], best], 1)).Q
        errors = expected_errors(q, lambda x: exact @ x, exact.trace(), q[:, 0].square())
        row: dict[str, Any] = {
            "mass": name,
            "hybrid loss over energy": float(errors.mean() / exact.trace()),
        }
        rows.append(row | {"correlation with area": mass_correlation(m.numpy(), areas)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["learned", "losses", "mass"])
    parser.add_argument("meshes", type=existing, nargs="+")
    parser.add_argument("--names", nargs="*", default=NINE, help="which files of the folders")
    for name, value in {"n": 800, "k": 50, "steps": 200}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    by_shape: list[dict[str, Any]] = []
    for path in (path for path in geometry.find_shapes(o.meshes) if path.stem in o.names):
        sample = Sample.of_file(path, o.n, o.k, SAMPLE_SEED)
        by_shape += [row | {"shape": sample.shape.name} for row in globals()[o.what](sample, o)]
        print(f"{path.stem} done", flush=True)
    label = next(iter(by_shape[0]))
    means = [
        mean_row(rows, **{label: name}) | {"shapes": len(rows)}
        for (name,), rows in grouped(by_shape, label).items()
    ]
    print(markdown(means))
    write(f"probes_{o.what}.json", facts("probes", "cpu", o) | {"rows": means, "shapes": by_shape})


if __name__ == "__main__":
    main()
