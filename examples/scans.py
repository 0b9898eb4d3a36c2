"""A small animal as scanners measure it: what `decompose` does to the points, and an eigenfunction
from all of them, by default, and of the mesh.

python examples/scans.py [FOLDER FOR THE TWO PICTURES]
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import eigenprobe as ep
from eigenprobe.viz.colours import DIVERGING
from eigenprobe_lab.evaluation import scanner

SHOWN = 2  # this vector, counted from 0
SCANS = "lines, noise and outliers", "six views, misregistered", "blobs"


def scans(mesh: ep.geometry.Shape) -> dict[str, scanner.Scan]:
    """Three scans of one mesh, 4000 points each."""
    rng = np.random.default_rng(0)
    lines = scanner.noisy(scanner.merged(mesh, 4000, rng, ratio=4.0), 0.005, rng)
    views = scanner.misregistered(scanner.merged(mesh, 4000, rng), 0.02, rng)
    blobs = scanner.with_blobs(scanner.drawn(mesh, 4000, rng), rng)
    return dict(zip(SCANS, (scanner.with_strays(lines, 0.03, rng), views, blobs), strict=True))


def what_is_done(found: dict[str, ep.Basis], path: Path) -> None:
    """The points from the side: used, left out as outliers, left out as small parts."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    for axes, (name, basis) in zip(figure.subplots(1, len(found)), found.items(), strict=True):
        kinds = np.zeros(basis.n, dtype=int)
        kinds[basis.info.get("left_out", [])] = 2
        kinds[basis.info.get("strays", [])] = 1
        for kind, colour, word in (
            (0, "#4a83da", "used"),
            (1, "#cc611d", "outliers"),
            (2, "#7b2d8b", "small parts"),
        ):
            chosen = basis.points[kinds == kind]
            axes.scatter(*chosen[:, :2].T, s=2 if kind == 0 else 8, c=colour, label=word, lw=0)
        axes.set_title(name)
        axes.set_aspect("equal")
        axes.axis("off")
    handles, words = axes.get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=3, markerscale=3, frameon=False)
    save(figure, path)


def what_is_found(
    taken: dict[str, scanner.Scan], found: dict[str, ep.Basis], shape: ep.geometry.Shape, path: Path
) -> None:
    """An eigenfunction from all points, by default, and of the mesh."""
    exact = ep.geometry.oracle(shape.vertices, shape.faces, SHOWN + 2).vectors
    figure = Figure(figsize=(12, 9), layout="constrained")
    for row, (name, scan) in zip(figure.subplots(len(taken), 3), taken.items(), strict=True):
        truth = scan.interpolate(exact)[:, SHOWN]
        everything = ep.decompose(scan.points, k=SHOWN + 2, resolution="all", parts="all")
        shown = [(shape.vertices, exact[:, SHOWN], "the mesh")]
        for basis, title in ((found[name], "by default"), (everything, f"{name}: all points")):
            function = basis.vectors[:, SHOWN]
            shown.append((scan.points, np.sign(function[scan.surface] @ truth) * function, title))
        for axes, (points, values, title) in zip(row, reversed(shown), strict=True):
            order = points[:, 2].argsort()  # what is near is drawn last
            colours = np.clip(values[order], -2, 2)
            axes.scatter(
                *points[order, :2].T, s=5, c=colours, cmap=DIVERGING, vmin=-2, vmax=2, lw=0
            )
            axes.set_title(title)
            axes.set_aspect("equal")
            axes.axis("off")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """A small file: few colours."""
    figure.savefig(path, dpi=110)
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shape = ep.datasets.creature()
    taken = scans(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ep.EigenprobeWarning)  # they are in `info["warnings"]`
        found = {name: ep.decompose(scan.points, k=SHOWN + 2) for name, scan in taken.items()}
        what_is_done(found, folder / "scan-points.png")
        what_is_found(taken, found, shape, folder / "scans.png")
    for name, basis in found.items():
        print(name, *basis.info["warnings"], sep="\n  ")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
