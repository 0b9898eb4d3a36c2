"""Procedural shapes: a gallery picture and the throughput of the source.

python benchmarks/procedural.py --gallery gallery.png            # three shapes of every family
python benchmarks/procedural.py --device cuda --count 1024       # clouds a second, as JSON
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from eigenprobe.geometry.procedural import FAMILIES, ProceduralShapes, Variation


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
    """`each` shapes of every family on one page."""
    from eigenprobe.viz.figures import gallery as draw

    clouds, titles = [], []
    for name in FAMILIES:
        for cloud in ProceduralShapes(seed=seed, families=[name], variation=Variation(partial=0, random=0)).draw(
            each, n
        ):
            clouds.append(cloud.numpy())
            titles.append(name)
    draw(clouds, titles, path, per_row=4 * each, size=220)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gallery", type=Path, help="write a picture instead of timing")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--n", type=int, default=1500)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.gallery:
        gallery(arguments.gallery, arguments.each, arguments.n, arguments.seed)
        return
    print(json.dumps(throughput(arguments.device, arguments.count, arguments.n, arguments.repeats), indent=2))


if __name__ == "__main__":
    main()
