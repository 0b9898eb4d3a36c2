"""Clouds with their cotangent oracle for measuring the pretrained model where there is no mesh library.

    python -m benchmarks.prepare_generalisation MESHES... [--out out/evaluation.npz] [--n 1500] [--k 50]

For measuring only: nothing here is ever trained on. `n` farthest points of each mesh's vertices, float32 points and
float16 oracle vectors there, and the name of each shape.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import eigenprobe as ep
from eigenprobe.geometry import find_shapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("out/evaluation.npz"))
    parser.add_argument("--n", type=int, default=1500)
    parser.add_argument("--k", type=int, default=50)
    options = parser.parse_args()
    names, points, vectors = [], [], []
    for path in find_shapes(options.meshes):
        try:
            shape = ep.geometry.load(path)
            oracle = ep.geometry.oracle(shape.vertices, shape.faces, options.k)
            vertices = np.asarray(shape.vertices, dtype=np.float32)
            index = np.asarray(ep.geometry.farthest_points(vertices, options.n, seed=0))
        except ValueError as error:
            print(f"skipped {path.name}: {error}")
            continue
        names.append(f"{path.parent.name}/{path.stem}")
        points.append(vertices[index])
        vectors.append(np.asarray(oracle.vectors)[index].astype(np.float16))
        print(names[-1], flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.out, names=np.array(names), points=np.stack(points), vectors=np.stack(vectors))


if __name__ == "__main__":
    main()
