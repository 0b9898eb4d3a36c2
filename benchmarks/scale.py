"""What a learned probe scale gains: `learn_scale` against the default bandwidth and the paper's, closed form.

    python -m benchmarks.scale [--data carry] [--n 4000] [--k 50]

Cosines up to 10 / 20 / 50 and eigenvalue discrepancy against the mesh oracle, for the `symmetric` smoother and the
paper's `row` smoother (15 neighbours).  Shapes come from npz files (benchmarks/prepare_shapes.py).  The oracle is used
to measure only: no scale sees it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigenprobe import decompose
from eigenprobe.evaluation.alignment import compare_vectors
from eigenprobe.probes.scale import learn_scale

PAPER = 0.101  # sigma of the paper's fixed setting, shapes scaled to the unit sphere


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry"))
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--k", type=int, default=50)
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    for path in sorted(o.data.glob("*.npz")):
        with np.load(path) as z:
            points = z["vertices"][z["indices"][: o.n]].astype(np.float64)
            vectors, values = z["vectors"][: o.n], z["eigenvalues"]
        start = time.perf_counter()
        scale = learn_scale(torch.from_numpy(points), dimension=2)
        seconds = time.perf_counter() - start
        radius = float(np.linalg.norm(points - points.mean(0), axis=1).max())
        row: dict[str, Any] = {"shape": path.stem, "learned": scale.sigma / scale.start, "seconds": seconds}
        for kind in ("symmetric", "row"):
            for name, sigma in (("default", scale.start), ("paper", PAPER * radius), ("learned", scale.sigma)):
                basis = decompose(points, o.k, smoother=kind, neighbours=15, bandwidth=sigma, dimension=2)
                result = compare_vectors(basis.vectors, vectors, basis.eigenvalues, values)
                levels = [k for k in (10, 20, 50) if k <= result.k]
                row[f"{kind}, {name}"] = [*(result.cosine(k) for k in levels), result.eigenvalue_discrepancy()]
        rows.append(row)
        print(f"{path.stem}: sigma {row['learned']:.2f} of the default, {seconds:.2f} s", flush=True)
    if not rows:
        raise SystemExit(f"no npz files in {o.data}: make them with benchmarks/prepare_shapes.py")
    print(f"{'mean over ' + str(len(rows)) + ' shapes':24s} k<=10  k<=20  k<=50  discrepancy")
    for key in [key for key in rows[0] if "," in key]:
        print(f"{key:24s} " + "  ".join(f"{x:.3f}" for x in np.mean([row[key] for row in rows], axis=0)))
    folder = Path(os.environ.get("OUT") or "benchmarks/results")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scale.json").write_text(json.dumps({"options": {"n": o.n, "k": o.k}, "shapes": rows}, indent=1))


if __name__ == "__main__":
    main()
