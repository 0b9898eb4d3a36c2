"""How much a pretrained basis loses for other sizes, noise and rotation, beside what the closed
form loses.

    python -m benchmarks.robustness MESHES... [--model surface] [--points 500 1500 4000]

Mean |cosine| with the mesh oracle over i <= 10, default Ritz, no sweeps. Noise is Gaussian, one
percent of the diameter.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import eigenprobe as ep
from benchmarks.record import existing, facts, write
from eigenprobe.evaluation import compare_vectors
from eigenprobe.io.shapes import find_shapes
from eigenprobe_lab.evaluation.pretrained import fingerprint


def cases(
    vertices: np.ndarray, sizes: list[int], seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Name to (indices of the vertices, points)."""
    rng = np.random.default_rng(seed)
    out = {}
    index = np.asarray(ep.geometry.farthest_points(vertices, max(sizes), seed=seed))
    for n in sizes:  # the first n of the farthest points are the farthest n
        out[f"n={n}"] = (index[:n], vertices[index[:n]])
    index, points = out["n=1500"]
    diameter = float(np.linalg.norm(points.max(0) - points.min(0)))
    out["noise 1 %"] = (index, points + 0.01 * diameter * rng.normal(size=points.shape))
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    out["rotated"] = (index, points @ (rotation * np.sign(np.linalg.det(rotation))))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("meshes", type=existing, nargs="+")
    parser.add_argument("--model", default="surface")
    parser.add_argument(
        "--points", type=int, nargs="+", default=[500, 1500, 4000], help="1500 is among them"
    )
    parser.add_argument("--most", type=int, default=60_000, help="vertices of a mesh")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = ep.SpectralModel.from_pretrained(options.model)
    found: dict[str, dict[str, list[float]]] = {}
    for path in find_shapes(options.meshes):
        shape = ep.geometry.load(path)
        vertices = np.asarray(shape.vertices)
        if not 8000 <= len(vertices) <= options.most:
            continue  # every case on the same shapes; oracles of larger meshes take minutes
        reference = np.asarray(ep.geometry.oracle(vertices, shape.faces, 10).vectors)
        for name, (index, points) in cases(
            vertices, sorted({1500, *options.points}), options.seed
        ).items():
            bases = {"pretrained": model.encode(points, k=10), "direct": ep.decompose(points, k=10)}
            for method, basis in bases.items():
                alignment = compare_vectors(
                    np.asarray(basis.vectors), reference[index], np.zeros(10), np.zeros(10)
                )
                found.setdefault(name, {}).setdefault(method, []).append(alignment.cosine(10))
        print(path.stem, flush=True)
    means = {
        name: {method: round(float(np.mean(v)), 4) for method, v in by.items()}
        for name, by in found.items()
    }
    count = len(next(iter(next(iter(found.values())).values())))
    for name, by in means.items():
        loss = means["n=1500"]["pretrained"] - by["pretrained"]
        ours = f"pretrained {by['pretrained']:.3f} (loses {loss:+.3f})"
        print(f"{name:10s} {ours}   direct {by['direct']:.3f}")
    content = {"model": fingerprint(model), "shapes": count, "cosine10": means}
    write("robustness.json", facts("robustness", "cpu", options, seed=options.seed) | content)


if __name__ == "__main__":
    main()
