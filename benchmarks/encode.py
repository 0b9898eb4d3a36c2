"""`SpectralModel.encode` beside `direct` and robust_laplacian + eigsh: seconds per cloud, one run, one machine.

    python -m benchmarks.encode [--device cuda] [--model surface] [--batch 64] [--n 1500]

Graph, Ritz rotation and eigenvalues are part of every time. Clouds are procedural, so nothing has to be downloaded. The
model's weights do not change its speed: without any in the package a random network of the recipe's size is timed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eigenprobe as ep
from benchmarks.record import best_device, facts, timed, write
from eigenprobe.geometry.procedural import ProceduralShapes
from eigenprobe.networks.spectral import SpectralNetwork
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe.pretrained.store import packaged


def median(call: Callable[[], Any], device: str, repeats: int) -> float:
    return float(np.median(timed(call, device, repeats)))


def robust(points: np.ndarray, k: int) -> None:
    import robust_laplacian
    from scipy.sparse.linalg import eigsh

    stiffness, mass = robust_laplacian.point_cloud_laplacian(points.astype(np.float64))
    eigsh(stiffness, k, mass, sigma=-1e-8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--model", default="surface")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--n", type=int, default=1500)
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ep.EigenprobeWarning)
    device, k = options.device, options.k
    known = options.model in packaged() or Path(options.model).is_dir()
    model = SpectralModel.from_pretrained(options.model) if known else SpectralModel(SpectralNetwork(), {}, "random")
    model.to(device)
    clouds = ProceduralShapes(seed=7, device=device).draw(options.batch, options.n)
    one = clouds[0]
    rows: dict[str, float] = {}
    rows["encode, one cloud"] = median(lambda: model.encode(one, k=k), device, options.repeats)
    rows["encode, one cloud, heat"] = median(lambda: model.encode(one, k=k, smoother="heat"), device, options.repeats)
    rows["encode, one cloud, no Ritz"] = median(lambda: model.encode(one, k=k, ritz=False), device, options.repeats)
    if device.startswith("cuda"):
        batch = median(lambda: model.encode(clouds, k=k), device, options.repeats)
        rows[f"encode, batch of {options.batch}, per cloud"] = batch / options.batch
        adaptive = median(lambda: model.encode(clouds, k=k, smoother="adaptive"), device, 1)
        rows[f"encode, batch of {options.batch}, adaptive smoother, per cloud"] = adaptive / options.batch
    rows["direct, one cloud"] = median(lambda: ep.decompose(one, k=k), device, options.repeats)
    try:
        points = one.cpu().numpy()
        rows["robust_laplacian + eigsh, one cloud"] = median(lambda: robust(points, k), "cpu", options.repeats)
    except ImportError:
        pass
    for what, seconds in rows.items():
        print(f"{1000 * seconds:9.2f} ms  {what}")
    content = {"n": options.n, "k": k, "model": model.name, "seconds": rows}
    write(f"encode_{torch.device(device).type}.json", facts("encode", device) | content)


if __name__ == "__main__":
    main()
