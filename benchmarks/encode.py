"""`SpectralModel.encode` beside `direct` and robust_laplacian + eigsh: seconds per cloud, one run,
one machine.

    python -m benchmarks.encode [--device cuda] [--model surface] [--batch 64] [--n 1500]

Graph, Ritz rotation and eigenvalues are part of every time. Clouds are procedural, so nothing has
to be downloaded. The model's weights do not change its speed: without any in the package a random
network of the recipe's size is timed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

import eigenprobe as ep
from benchmarks.record import best_device, clock, facts, spread, turns, write
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe_lab.shapes import ProceduralShapes

ROUNDS = 30.0  # seconds that the rounds of one row may take, one round at least


def robust(points: np.ndarray, k: int) -> None:
    import robust_laplacian
    from scipy.sparse.linalg import eigsh

    stiffness, mass = robust_laplacian.point_cloud_laplacian(points.astype(np.float64))
    eigsh(stiffness, k, mass, sigma=-1e-8)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--model", default="surface")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--n", type=int, default=1500)
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ep.EigenprobeWarning)
    device, k = options.device, options.k
    model = SpectralModel.from_pretrained(options.model)
    model.to(device)
    clouds = ProceduralShapes(seed=7, device=device).draw(
        options.batch if device.startswith("cuda") else 1, options.n
    )
    one, batch = clouds[0], options.batch
    calls: dict[str, Callable[[], Any]] = {
        "encode, one cloud": lambda: model.encode(one, k=k),
        "encode, one cloud, heat": lambda: model.encode(one, k=k, smoother="heat"),
        "encode, one cloud, no Ritz": lambda: model.encode(one, k=k, ritz=False),
        "direct, one cloud": lambda: ep.decompose(one, k=k),
    }
    groups = [calls]  # what takes turns
    if device.startswith("cuda"):
        sizes = np.random.default_rng(7).integers(options.n // 3, options.n + 1, batch)
        unequal = [cloud[:size] for cloud, size in zip(clouds, sizes.tolist(), strict=True)]
        ways: dict[str, tuple[Any, dict[str, Any]]] = {
            f"encode, batch of {batch}, per cloud": (clouds, {}),
            "the same, adaptive, per cloud": (clouds, {"smoother": "adaptive"}),
            f"encode, {options.n // 3} to {options.n} points, per cloud": (unequal, {}),
        }
        groups = [{name: call} for name, call in calls.items()]
        groups += [
            {name: partial(model.encode, given, k=k, **how)} for name, (given, how) in ways.items()
        ]
    elif find_spec("robust_laplacian") is not None:
        calls["robust_laplacian + eigsh, one cloud"] = partial(robust, one.numpy(), k)
    rows: dict[str, Any] = {}
    about = facts("encode", device, options, seed=7) | {
        "n": options.n,
        "k": k,
        "model": model.name,
        "rows": rows,
    }
    # the file is whole after each; what takes seconds (all graphs one by one) is timed less often
    for group in groups:
        start = clock(device)
        for call in group.values():
            call()
        rounds = max(1, min(options.repeats, int(ROUNDS / (clock(device) - start))))
        for name, row in turns(group, rounds, device).items():
            share = batch if name.endswith("per cloud") else 1
            rows[name] = {key: np.divide(row[key], share).tolist() for key in row}
            print(f"{spread(rows[name], 2, unit=1e-3)} ms  {name}", flush=True)
            if "points" in name:  # what a batch changes in its clouds
                both = zip(model.encode(unequal, k=k)[:8], unequal, strict=False)
                pairs = [
                    (b.eigenvalues[1:], model.encode(x, k=k, smoother="heat").eigenvalues[1:])
                    for b, x in both
                ]
                rows[name]["from alone"] = max(float((a / b - 1).abs().max()) for a, b in pairs)
                print(
                    f"eigenvalues within {rows[name]['from alone']:.1e} of those alone", flush=True
                )
        write(f"encode_{torch.device(device).type}.json", about)


if __name__ == "__main__":
    main()
