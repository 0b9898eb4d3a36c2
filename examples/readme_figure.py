"""The figures of the README: eigenfunctions of a built-in animal, from its points alone, and a map
of handwritten digits.

python examples/readme_figure.py [docs/images/eigenfunctions.png [docs/images/digits.png]]
"""

from __future__ import annotations

import sys
from pathlib import Path

import eigenprobe as ep
from eigenprobe.viz import figures


def main(path: Path, digits: Path) -> None:
    shape = ep.datasets.creature()
    points, faces = shape.vertices, shape.faces
    basis = ep.decompose(points, k=11)
    figures.eigenfunctions(points, basis.vectors, faces=faces, path=path)
    rows, labels = ep.datasets.digits()
    ep.Eigenmaps(random_state=0).fit(rows).plot(labels, path=digits)
    print(path, digits)


if __name__ == "__main__":
    given = [Path(word) for word in sys.argv[1:]]
    usual = [Path("docs/images/eigenfunctions.png"), Path("docs/images/digits.png")]
    main(*(given + usual[len(given) :]))
