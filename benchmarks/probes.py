"""What the choice of probes and of the loss changes: families, learned probes, losses, eigenvalues, mass.

    python -m benchmarks.probes families|learned|losses|eigenvalues|mass MESHES... [--n 800] [--k 50] [--steps 200]

families   closed form through the covariance of each family: order, high vectors, energy, three eigenvalue estimators
learned    the paper's row probes: default bandwidth, its .101, learned by held-out reconstruction of monomials and by
           the geometry of a smoothing step (`learn_scale`), neither of which sees an oracle
losses     one small network trained on the paper's probes with each loss: cosines, learned mass, skipped batches
eigenvalues  from worst errors with the oracle's own vectors: lambda_{k+1} is one over the largest, over the probes, of
             as written  e = |f - P_k f|^2        centred   e / e_1, relative to what the first vector leaves
             root        |f - P_k f|              bounded   e / <f, (I - S) f>, probes of unit Dirichlet energy
             relative    e / |f|^2
           each scaled to the sum of the oracle's, or ("scaled") by the factor of least discrepancy for the shape
mass       of clouds drawn three times as densely at one end as at the other: q_1^2 against true area, and the loss of
           the paper's probes with an even mass and with the true one

All against the mesh oracle, which is used to measure only. Means over the shapes; rows by shape are in the JSON.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.record import existing, facts, write
from eigenprobe import decompose, geometry
from eigenprobe.cloud import Frame
from eigenprobe.errors import InputError
from eigenprobe.evaluation import mass_correlation, nearest_sample_areas
from eigenprobe.host.tables import grouped, markdown, mean_row
from eigenprobe.probes.estimates import worst
from eigenprobe.probes.families import FAMILIES
from eigenprobe.probes.objective import expected_errors, prefix_errors
from eigenprobe.probes.probes import Probes
from eigenprobe.probes.scale import learn_scale
from eigenprobe.smoothers import build_smoother
from eigenprobe.training import FitSettings, ProbeSettings, fit_network
from eigenprobe_lab.evaluation.fitted import SAMPLE_SEED
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.evaluation.surfaces import levels
from eigenprobe_lab.factory.probes import learn_probes
from eigenprobe_lab.paper.overfit import covariance
from eigenprobe_lab.paper.published import FIXED, NINE, single_shape, tuned

LOSSES = {
    "hybrid (the paper's)": ("hybrid", "mean"),
    "Euclidean": ("euclidean", "mean"),
    "M-norm": ("mass", "mean"),
    "hybrid, worst probe (min-max)": ("hybrid", "worst"),
}


def families(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for name in FAMILIES:
        row: dict[str, Any] = {"probes": name}
        for kind in ("rayleigh", "mean", "worst"):
            basis = decompose(sample.points, o.k, probes=name, dimension=2, neighbours="plain", eigenvalues=kind)
            found = sample.compare(basis.vectors, basis.eigenvalues)
            if kind == "rayleigh":
                row |= {f"k≤{i}": found.cosine(i) for i in levels(o.k)}
                row |= {
                    "subspace": found.subspace(o.k),
                    "first 10 explain": float(np.sum(basis.info["explained"][:10])),
                }
            row[f"λ disc. {kind}"] = found.eigenvalue_discrepancy()
        rows.append(row)
    return rows


def learned(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    points, k = torch.as_tensor(sample.points, dtype=torch.float64), min(o.k, 20)
    sigmas = {"default": None, "the paper's .101": 0.101 * Frame.of(points).scale}
    sigmas["learned: geometry of a step"] = learn_scale(points, dimension=2).sigma
    rows = []
    for name, sigma in sigmas.items():
        options = {"smoother": "row", "neighbours": 15, "bandwidth": sigma, "dimension": 2}
        rows.append({"row probes": name, "basis": decompose(sample.points, k, **options).normalized})
    for degree in (3, 5):
        found = learn_probes(sample.points, k, degree=degree)
        rows.append({"row probes": f"learned: held-out monomials, degree {degree}", "basis": found.basis})
        rows[-1] |= {f"held-out error, {name}": error for name, error in found.errors.items()}
    for row in rows:
        aligned = sample.compare(row.pop("basis"), np.zeros(k))
        row |= {f"k≤{i}": aligned.cosine(i) for i in levels(k)}
    return rows


def losses(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    paper = Probes(200, steps=20, k=10, sigma=(0.05, 0.3))
    base = FitSettings(
        smoother="row", loss="sampled", probes=ProbeSettings("row", paper=paper), preset="cpu", resamplings="fresh"
    )
    for name, (projection, probe) in LOSSES.items():
        settings = replace(base, projection=projection, probe=probe, size=o.n // 2, steps=o.steps, ritz=False)
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


def eigenvalues(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    local = Frame.of(torch.as_tensor(sample.points))(torch.as_tensor(sample.points), torch.float32)
    step = build_smoother(local.double(), "row", k=15, dimension=2)
    vectors, areas = (torch.as_tensor(each).double() for each in (sample.vectors, sample.areas))
    bases = {"even mass": torch.linalg.qr(vectors).Q, "true areas": torch.linalg.qr(areas.sqrt()[:, None] * vectors).Q}
    rows: dict[str, dict[str, Any]] = {}
    for probes, (neighbours, steps, sigma) in {"tuned": tuned(sample.shape.name), "fixed": FIXED}.items():
        drawn = Probes(o.m, steps=steps, k=neighbours, sigma=sigma)
        f = drawn.draw(local, torch.Generator().manual_seed(0)).double()
        energy = (f * (f - step.apply(f))).sum(0)
        for name, q in bases.items():
            e = prefix_errors(q, f, q[:, 0].square())
            readings = {"as written": e, "root": e.sqrt(), "relative": e / f.square().sum(0), "centred": e / e[:1]}
            for reading, errors in (readings | {"bounded": e / energy}).items():
                values, exact = worst(errors).numpy(), sample.eigenvalues[: o.k]
                factors = {"": exact.sum() / values.sum(), ", scaled": best_scale(values, exact)}
                for scale, factor in factors.items():
                    row = rows.setdefault(reading + scale, {"reading": reading + scale})
                    row[f"{probes}, {name}"] = float(np.mean(np.abs(factor * values[1:] - exact[1:]) / exact[1:]))
    return [row | {"published": single_shape(sample.shape.name)["discrepancy"]} for row in rows.values()]


def best_scale(values: np.ndarray, exact: np.ndarray) -> float:
    """The factor c of least mean |c values - exact| / exact over all but the first: a weighted median."""
    ratios = values[1:] / exact[1:]
    order = np.argsort(1 / ratios)
    middle = np.searchsorted(np.cumsum(ratios[order]), ratios.sum() / 2)
    return float(1 / ratios[order][middle])


def mass(sample: Sample, o: argparse.Namespace) -> list[dict[str, Any]]:
    generator = np.random.default_rng(0)
    height = sample.points @ np.linalg.svd(sample.points - sample.points.mean(0), full_matrices=False)[2][0]
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
        smoother="row", loss="sampled", probes=ProbeSettings("row", paper=probes), preset="cpu", resamplings=1
    )
    settings = replace(settings, steps=o.steps, ritz=False, reference=False)
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
        row: dict[str, Any] = {"mass": name, "hybrid loss over energy": float(errors.mean() / exact.trace())}
        rows.append(row | {"correlation with area": mass_correlation(m.numpy(), areas)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["families", "learned", "losses", "eigenvalues", "mass"])
    parser.add_argument("meshes", type=existing, nargs="+")
    parser.add_argument("--names", nargs="*", default=NINE, help="which files of the folders")
    for name, value in {"n": 800, "k": 50, "m": 300, "steps": 200}.items():
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
        mean_row(rows, **{label: name}) | {"shapes": len(rows)} for (name,), rows in grouped(by_shape, label).items()
    ]
    print(markdown(means))
    write(f"probes_{o.what}.json", facts("probes", "cpu", o) | {"rows": means, "shapes": by_shape})


if __name__ == "__main__":
    main()
