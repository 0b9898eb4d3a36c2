"""Procedural shapes: a gallery picture and the throughput of the source.

python benchmarks/procedural.py --gallery gallery.png            # five shapes of every family
python benchmarks/procedural.py --device cuda --count 1024       # clouds a second, as JSON
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from eigenprobe.geometry.procedural import FAMILIES, ProceduralShapes


def throughput(device: str, count: int, n: int, repeats: int) -> dict[str, float | int | str]:
    source = ProceduralShapes(seed=0, device=device)
    source.draw(count, n)
    _wait(device)
    start = time.perf_counter()
    for _ in range(repeats):
        source.draw(count, n)
    _wait(device)
    seconds = time.perf_counter() - start
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{torch.get_num_threads()} CPU threads"
    return {"device": name, "n": n, "count": count, "clouds_per_second": round(repeats * count / seconds, 1)}


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def gallery(path: Path, each: int, n: int, seed: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(FAMILIES)
    figure = plt.figure(figsize=(1.5 * len(names), 1.6 * each), dpi=80)
    for column, name in enumerate(names):
        clouds = ProceduralShapes(seed=seed, families=[name]).draw(each, n).numpy()
        for row, cloud in enumerate(clouds):
            axis = figure.add_subplot(each, len(names), row * len(names) + column + 1, projection="3d")
            axis.scatter(*cloud.T, s=1.2, c=cloud[:, 2] + 0.5 * cloud[:, 0], cmap="viridis", linewidths=0)
            axis.set_xlim(-0.75, 0.75), axis.set_ylim(-0.75, 0.75), axis.set_zlim(-0.75, 0.75)
            axis.set_axis_off()
            if row == 0:
                axis.set_title(name, fontsize=9)
    figure.subplots_adjust(0, 0, 1, 0.96, 0, 0)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gallery", type=Path, help="write a picture instead of timing")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--n", type=int, default=1500)
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.gallery:
        gallery(arguments.gallery, arguments.each, arguments.n, arguments.seed)
        return
    print(json.dumps(throughput(arguments.device, arguments.count, arguments.n, arguments.repeats), indent=2))


if __name__ == "__main__":
    main()
