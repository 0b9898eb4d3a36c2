"""Very many noisy points: seconds, memory and errors of 50 vectors, which come from a working
sample of the cloud.

    python -m benchmarks.noisy [--n 3000000] [--noise 0.01] [--rounds 3] [--device cuda]

Independent random points of a sphere, a torus and a bumpy sphere, each moved by a Gaussian of
``noise`` times the radius. ``numpy`` has them, and gets its vectors, in float64 in the memory of
the host; ``device`` in float32 where they are worked on. The error is the mean one of eigenvalues 2
to 20, relative to those of 10,000 clean farthest points.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from typing import Any

import numpy as np
import torch

import eigenprobe as ep
from benchmarks.record import best_device, facts, peak, turns, write
from eigenprobe_lab.evaluation.reports import markdown

K, COMPARED = 50, slice(1, 20)
CLEAN, DRAWN = (
    10_000,
    60_000,
)  # points that eigenvalues are compared with those of, and drawn to choose them from
SHAPES = ("sphere", "torus", "bumpy sphere")


def cloud(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Random points ``(n, 3)`` of a shape of radius one."""
    u = rng.standard_normal((n, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    if kind == "torus":
        a, b = rng.random((2, n)) * 2 * np.pi
        r = 0.7 + 0.3 * np.cos(b)
        return np.stack([r * np.cos(a), r * np.sin(a), 0.3 * np.sin(b)], 1)
    if kind == "bumpy sphere":
        u *= (1 + 0.25 * np.sin(3 * u[:, :1]) + 0.2 * u[:, 1:2] * u[:, 2:]) / 1.3
    return u


def measure(kind: str, o: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each place that the points of a shape come from."""
    rng = np.random.default_rng(o.seed)
    drawn = cloud(kind, DRAWN, rng)
    even = ep.decompose(
        drawn[ep.geometry.farthest_points(drawn, CLEAN, o.seed)], K, device=o.device
    ).eigenvalues
    x, rows = cloud(kind, o.n, rng), []
    x += o.noise * rng.standard_normal(x.shape)
    given = {"numpy": x, "device": torch.as_tensor(x, dtype=torch.float32, device=o.device)}
    for place, points in given.items():
        call = partial(ep.decompose, points, K, device=o.device)
        found = turns({"call": call}, o.rounds, o.device)["call"]
        bases: list[Any] = []
        memory = peak(lambda: bases.append(call()), o.device)  # noqa: B023
        basis = bases[0]
        error = np.abs(np.asarray(basis.eigenvalues.tolist())[COMPARED] / even[COMPARED] - 1).mean()
        row = {
            "shape": kind,
            "points": o.n,
            "from": place,
            "cold": found["cold"],
            "seconds": found["seconds"],
        }
        row |= {"range": found["range"], "all": found["all"], "cpu": found["cpu"], "MiB": memory}
        rows.append(
            row
            | {"sampled": basis.info.get("resolution", o.n), "error of eigenvalues": float(error)}
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=best_device())
    for name, value in {"n": 3_000_000, "rounds": 3, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--noise", type=float, default=0.01, help="deviation, of the radius")
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = [row for kind in SHAPES for row in measure(kind, o)]
    write(f"noisy_{o.device}.json", facts("noisy", o.device, o, seed=o.seed) | {"rows": rows})
    print(markdown(rows))


if __name__ == "__main__":
    main()
