"""What a learned probe scale gains: `learn_scale` against the default bandwidth and the paper's, closed form.

    python -m benchmarks.probe_scale MESHES... [--n 600] [--k 50]

Cosines up to 10 / 20 / 50 and eigenvalue discrepancy against the mesh oracle, for the `symmetric` smoother and the
paper's `row` smoother (15 neighbours); 600 points, so that all shapes take three minutes. The oracle is used to
measure only: no scale sees it.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch

from benchmarks.record import facts, over_meshes, write
from eigenprobe import decompose, geometry
from eigenprobe.probes.scale import learn_scale
from eigenprobe_lab.evaluation.fitted import SAMPLE_SEED
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.evaluation.surfaces import levels

PAPER = 0.101  # sigma of the paper's fixed setting, shapes scaled to the unit sphere


def measure(sample: Sample, k: int) -> dict[str, Any]:
    """One shape: every smoother and bandwidth."""
    points = sample.points
    start = time.perf_counter()
    scale = learn_scale(torch.from_numpy(points), dimension=2)
    seconds = time.perf_counter() - start
    radius = float(np.linalg.norm(points - points.mean(0), axis=1).max())
    row: dict[str, Any] = {"shape": sample.shape.name, "learned": scale.sigma / scale.start, "seconds": seconds}
    for kind in ("symmetric", "row"):
        for name, sigma in (("default", scale.start), ("paper", PAPER * radius), ("learned", scale.sigma)):
            basis = decompose(points, k, smoother=kind, neighbours=15, bandwidth=sigma, dimension=2)
            found = sample.compare(basis.vectors, basis.eigenvalues)
            row[f"{kind}, {name}"] = [*(found.cosine(level) for level in levels(k)), found.eigenvalue_discrepancy()]
    return row


def main() -> None:
    o = over_meshes(__doc__, n=600, k=50).parse_args()
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    for path in geometry.find_shapes(o.meshes):
        shape = geometry.load(path)
        rows.append(measure(Sample.on_surface(shape, min(o.n, shape.n), o.k, SAMPLE_SEED), o.k))
        print(f"{path.stem}: sigma {rows[-1]['learned']:.2f} of the default, {rows[-1]['seconds']:.2f} s", flush=True)
    print(f"{f'mean over {len(rows)} shapes':24s} k<=10  k<=20  k<=50  discrepancy")
    for key in [key for key in rows[0] if "," in key]:
        print(f"{key:24s} " + "  ".join(f"{x:.3f}" for x in np.mean([row[key] for row in rows], axis=0)))
    write("probe_scale.json", facts("probe_scale", "cpu", o, seed=SAMPLE_SEED) | {"shapes": rows})


if __name__ == "__main__":
    main()
