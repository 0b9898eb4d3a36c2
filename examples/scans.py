"""A small animal as scanners measure it: an eigenfunction from all points, from the working sample,
and of the mesh.

python examples/scans.py [docs/images/scans.png]
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import eigenprobe as ep
from eigenprobe.viz import figures
from eigenprobe_lab.evaluation.scans import METHODS, ScanMeasure

SHOWN = 2  # this vector, counted from 0
KINDS = {
    "rings:8": "lines",
    "misregistered:0.02": "six views",
    "strays:0.05": "strays",
    "blobs": "blobs",
}


def main(path: Path) -> None:
    shape = ep.datasets.creature()
    mesh = shape.vertices, shape.faces
    exact = ep.geometry.oracle(*mesh, SHOWN + 2)
    clouds, titles, values = [], [], []
    for kind, name in KINDS.items():
        scan = ScanMeasure(points=4000).scan(mesh, kind)
        truth = scan.interpolate(exact.vectors)[:, SHOWN]
        for title, method in ((f"{name}, all points", "plain"), ("by default", "ours")):
            found = METHODS[method][0](scan.points, SHOWN + 2).vectors[:, SHOWN]
            sign = np.sign(found[scan.surface] @ truth)
            clouds.append(scan.points)
            titles.append(title)
            values.append(sign * np.clip(found, -3, 3))
        clouds.append(mesh)
        titles.append("the mesh")
        values.append(exact.vectors[:, SHOWN])
    buffer = io.BytesIO()
    figures.gallery(clouds, titles, values=values, per_row=6, up="y").savefig(buffer, dpi=110)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/scans.png"))
