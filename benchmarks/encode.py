"""`SpectralModel.encode` beside `direct` and robust_laplacian + eigsh: seconds a cloud, one run, one machine.

    python benchmarks/encode.py [--device cuda] [--model surface] [--batch 64] [--n 1500] [--out benchmarks/results]

Graph, Ritz rotation and eigenvalues are part of every time. Clouds are procedural, so nothing has to be downloaded. The
model's weights do not change its speed: without any in the package a random network of the recipe's size is timed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eigenprobe as ep
from eigenprobe.geometry.procedural import ProceduralShapes
from eigenprobe.networks.spectral import SpectralNetwork
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe.pretrained.store import packaged


def clock(call: Callable[[], Any], device: str, repeats: int) -> float:
    """Median seconds after one warm-up."""
    seconds = []
    for i in range(repeats + 1):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        if i:
            seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def robust(points: np.ndarray, k: int) -> None:
    import robust_laplacian
    from scipy.sparse.linalg import eigsh

    stiffness, mass = robust_laplacian.point_cloud_laplacian(points.astype(np.float64))
    eigsh(stiffness, k, mass, sigma=-1e-8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", default="surface")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--n", type=int, default=1500)
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ep.EigenprobeWarning)
    device, k = options.device, options.k
    known = options.model in packaged() or Path(options.model).is_dir()
    model = SpectralModel.from_pretrained(options.model) if known else SpectralModel(SpectralNetwork(), {}, "random")
    model.to(device)
    clouds = ProceduralShapes(seed=7, device=device).draw(options.batch, options.n)
    one = clouds[0]
    rows: dict[str, float] = {}
    rows["encode, one cloud"] = clock(lambda: model.encode(one, k=k), device, options.repeats)
    rows["encode, one cloud, heat"] = clock(lambda: model.encode(one, k=k, smoother="heat"), device, options.repeats)
    rows["encode, one cloud, no Ritz"] = clock(lambda: model.encode(one, k=k, ritz=False), device, options.repeats)
    if device.startswith("cuda"):
        batch = clock(lambda: model.encode(clouds, k=k), device, options.repeats)
        rows[f"encode, batch of {options.batch}, a cloud"] = batch / options.batch
        adaptive = clock(lambda: model.encode(clouds, k=k, smoother="adaptive"), device, 1)
        rows[f"encode, batch of {options.batch}, adaptive smoother, a cloud"] = adaptive / options.batch
    rows["direct, one cloud"] = clock(lambda: ep.decompose(one, k=k), device, options.repeats)
    try:
        points = one.cpu().numpy()
        rows["robust_laplacian + eigsh, one cloud"] = clock(lambda: robust(points, k), "cpu", options.repeats)
    except ImportError:
        pass
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{torch.get_num_threads()} CPU threads"
    facts = {"device": name, "n": options.n, "k": k, "model": model.name, "date": time.strftime("%Y-%m-%d")}
    for what, seconds in rows.items():
        print(f"{1000 * seconds:9.2f} ms  {what}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        kind = "cuda" if device.startswith("cuda") else "cpu"
        content = {"facts": facts, "seconds": {name: round(value, 6) for name, value in rows.items()}}
        (options.out / f"encode_{kind}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
