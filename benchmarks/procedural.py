"""Procedural shapes: a gallery picture and the throughput of the source.

python -m benchmarks.procedural --gallery gallery.png            # three shapes of every family
python -m benchmarks.procedural --device cuda --count 1024       # clouds per second, as JSON
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.record import best_device, facts, timed
from eigenprobe_lab.shapes import FAMILIES, ProceduralShapes, Variation


def gallery(path: Path, each: int, n: int, seed: int) -> None:
    """`each` shapes of every family on one page."""
    from eigenprobe.viz.figures import gallery as draw

    clouds, titles = [], []
    for name in FAMILIES:
        source = ProceduralShapes(seed=seed, families=[name], variation=Variation(partial=0, random=0))
        clouds += [cloud.numpy() for cloud in source.draw(each, n)]
        titles += [name] * each
    draw(clouds, titles, path, per_row=4 * each, size=220)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gallery", type=Path, help="write a picture instead of timing")
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--n", type=int, default=1500)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args()
    if o.gallery:
        gallery(o.gallery, o.each, o.n, o.seed)
        return
    source = ProceduralShapes(seed=o.seed, device=o.device)
    seconds = float(np.mean(timed(lambda: source.draw(o.count, o.n), o.device, o.repeats)))
    content = {"n": o.n, "count": o.count, "clouds_per_second": round(o.count / seconds, 1)}
    print(json.dumps(facts("procedural", o.device) | content, indent=2))


if __name__ == "__main__":
    main()
