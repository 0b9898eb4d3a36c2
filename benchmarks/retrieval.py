"""Same-class retrieval by eigenvalues: bare clouds by eigenprobe and by robust_laplacian, and the
whole meshes.

    python -m benchmarks.retrieval MESHES... [--n 1000] [--count 40]

Shape DNA, slope-normalised, of ``n`` farthest vertices without their faces, and of the mesh by its
cotangent operator. Classes are read from the names of the files: the twenty kinds of SHREC'07 (its
numbers in twenties), humans of FAUST and TOSCA together, animals by name; a shape that is alone in
its class is not asked for. Nearest: the share of shapes whose nearest other one is of its class.
First tier: of the c - 1 others of its class, the share among the first c - 1.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import robust_laplacian
from scipy.sparse.linalg import eigsh

import eigenprobe as ep
from benchmarks.record import facts, over_meshes, write
from eigenprobe.io.shapes import find_shapes

HUMAN = ("tr_reg", "michael", "david", "human")


def kind(name: str) -> str:
    """The class of a file of ``surfaces/``."""
    if found := re.fullmatch(r"shrec07_watertight__(\d+)", name):
        number = (int(found[1]) - 1) // 20
        return "human" if number == 0 else f"shrec {number}"
    stem = re.sub(r"[-_\d]+.*$", "", name.partition("__")[2])
    return "human" if stem.startswith(("tr", *HUMAN)) else stem


def robust(points: np.ndarray, k: int) -> ep.Basis:
    stiffness, mass = robust_laplacian.point_cloud_laplacian(points)
    values, vectors = eigsh(stiffness, k, mass, sigma=-1e-8)
    m = mass.diagonal() / mass.sum()
    return ep.Basis(vectors * np.sqrt(mass.diagonal())[:, None], m, np.maximum(values, 0))


def scores(bases: list[ep.Basis], kinds: list[str], count: int) -> dict[str, float]:
    """Over the shapes that are not alone in their class."""
    order, _ = ep.apps.retrieve(bases, count)
    same = np.array(kinds)[order] == np.array(kinds)[:, None]
    others = same.sum(1)
    asked = others > 0
    tier = [same[i, : others[i]].mean() for i in np.flatnonzero(asked)]
    return {"nearest": float(same[asked, 0].mean()), "first tier": float(np.mean(tier))}


def main() -> None:
    options = over_meshes(__doc__, n=1000, count=40).parse_args()
    warnings.simplefilter("ignore")
    bases: dict[str, list[ep.Basis]] = {"eigenprobe": [], "robust_laplacian": [], "mesh": []}
    kinds = []
    for path in find_shapes(options.meshes):
        shape = ep.geometry.load(path)
        if shape.faces is None or shape.n < options.n:
            continue
        vertices = np.asarray(shape.vertices, float)
        points = vertices[np.asarray(ep.geometry.farthest_points(vertices, options.n, seed=0))]
        k = options.count + 1
        bases["eigenprobe"].append(ep.decompose(points, k=k))
        bases["robust_laplacian"].append(robust(points, k))
        bases["mesh"].append(ep.geometry.oracle(vertices, shape.faces, k))
        kinds.append(kind(path.stem))
        print(path.stem, kinds[-1], flush=True)
    rows = [
        {"eigenvalues of": name, **scores(given, kinds, options.count)}
        for name, given in bases.items()
    ]
    found: dict[str, Any] = {
        "n": options.n,
        "count": options.count,
        "shapes": len(kinds),
        "rows": rows,
    }
    print(rows)
    write("retrieval.json", facts("retrieval", "cpu", options, peers=("robust_laplacian",)) | found)


if __name__ == "__main__":
    main()
