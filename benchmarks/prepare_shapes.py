"""Make the small files that benchmarks/training.py reads, from a folder of meshes.

    python -m benchmarks.prepare_shapes MESHES [--out carry] [--names armadillo bimba ...] [--n 4000] [--k 50]

One npz a shape: ``vertices (N, 3)``, the ``indices (n,)`` of a farthest-point sample, and the cotangent oracle there
(``vectors (n, K)``, ``eigenvalues (K,)``).  The machine with the GPU then needs no mesh library.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import eigenprobe as ep
from eigenprobe.paper.published import NINE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=Path)
    parser.add_argument("--out", type=Path, default=Path("carry"))
    parser.add_argument("--names", nargs="*", default=list(NINE))
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--k", type=int, default=50)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        path = next(iter(sorted(options.meshes.glob(f"{name}.*"))), None)
        if path is None:
            print(f"{name}: not found in {options.meshes}")
            continue
        shape = ep.geometry.load(path)
        oracle = ep.geometry.oracle(shape.vertices, shape.faces, options.k)
        vertices = np.asarray(shape.vertices, dtype=np.float32)
        indices = np.asarray(ep.geometry.farthest_points(vertices, min(options.n, len(vertices)), seed=1000))
        np.savez_compressed(
            options.out / f"{name}.npz",
            vertices=vertices,
            indices=indices,
            vectors=np.asarray(oracle.vectors)[indices].astype(np.float32),
            eigenvalues=np.asarray(oracle.eigenvalues, dtype=np.float64),
        )
        print(f"{name}: {len(vertices)} vertices, {len(indices)} samples")


if __name__ == "__main__":
    main()
