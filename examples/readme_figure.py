"""The figure at the top of the README: eigenfunctions of a built-in animal, from its points alone.

python examples/readme_figure.py [docs/images/eigenfunctions.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import eigenprobe as ep
from eigenprobe.viz import figures


def main(path: Path) -> None:
    shape = ep.datasets.creature()
    points, faces = shape.vertices, shape.faces
    basis = ep.decompose(points, k=11)
    figures.eigenfunctions(points, basis.vectors, faces=faces, path=path)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/eigenfunctions.png"))
