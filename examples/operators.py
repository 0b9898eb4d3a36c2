"""The same points, six operators: a row of eigenfunctions of each, from the points alone.

python examples/operators.py [docs/images/operators.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import eigenprobe as ep
from eigenprobe.viz import figures

SHOWN = 3


def main(path: Path) -> None:
    shape = ep.datasets.creature()
    points, faces = shape.vertices, shape.faces
    height = (points[:, 1] - points[:, 1].min()) / np.ptp(points[:, 1])
    operators: dict[str, dict[str, object]] = {
        "plain": {},
        "potential": {"potential": 4000 * (1 - height) ** 2 / np.ptp(points) ** 2},
        "vanishing feet": {"boundary": height < 0.25},
        "anisotropic": {"anisotropy": 2.0},
        "weighted": {"measure": np.exp(4 * height)},
        "scale-invariant": {"metric": "scale-invariant"},
    }
    bases = {
        name: ep.decompose(points, k=SHOWN + 1, **chosen) for name, chosen in operators.items()
    }
    columns = [basis.vectors[:, 1 : SHOWN + 1] for basis in bases.values()]
    titles = [f"{name} {i}" for name in bases for i in range(2, SHOWN + 2)]
    shown = {"columns": list(range(len(titles))), "titles": titles, "per_row": 2 * SHOWN}
    figures.eigenfunctions(
        points, np.concatenate(columns, 1), faces=faces, path=path, size=300, **shown
    )
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/operators.png"))
