"""Whether `basis.uncertainty` holds: true errors of eigenvalues over estimated ones, on clouds of
known spectrum.

    python -m benchmarks.calibration [MESHES...] [--even] [--points 500 1500] [--seeds 2] [--most
    5000] [--shapes 34]

Prints the curve  share of cases with  true <= t * estimate  for several t, of eigenvalues 2 to 20:
of all of `truths` (closed forms, clean and damaged), of samples of meshes and of procedural shapes,
half of them folded until parts touch or cross, against their finite elements. At t = 2 it is to be
.9. Constants were chosen on procedural shapes 0 to 65 and on closed forms of seeds 1 and 2; the
shapes here are others (from `FIRST` on). Beside it: of clouds whose first ten are off by more than
a tenth, how many were silent, and of those below a twentieth, how many were said to be off.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

import eigenprobe as ep
from benchmarks.meshing import mesh_field
from benchmarks.record import existing, facts, write
from benchmarks.truths import TRUTHS
from eigenprobe.io.shapes import find_shapes
from eigenprobe_lab.shapes import FAMILIES, Rng

K = 20
FIRST = 3000  # of the procedural shapes
SIZES = (500, 1500, 4000)
COUNTS = ("wrong", "silent", "right", "false alarms")
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Case:
    """One cloud: true over estimated errors, seconds of basis and estimate, mean error of the first
    ten, a warning.
    """

    ratio: np.ndarray
    seconds: tuple[float, float]
    error: float
    said: bool


def measure(points: np.ndarray, spectrum: np.ndarray) -> Case:
    """Relative errors of eigenvalues 2 to k beside their estimates."""
    k = min(len(spectrum), len(points) // 3)
    began = perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        basis = ep.decompose(points, k=k)
    solved = perf_counter()
    estimate = basis.uncertainty.eigenvalues[1:]
    true = np.abs(basis.eigenvalues[1:] / spectrum[1:k] - 1)
    seconds = solved - began, perf_counter() - solved
    heard = any("10 %" in str(each.message) for each in said)
    return Case(true / np.maximum(estimate, 1e-12), seconds, float(true[:10].mean()), heard)


def closed_forms(seeds: int, most: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Kind (clean or damaged), points and spectrum of all clouds of at most ``most`` points."""
    for truth in TRUTHS:
        for seed in range(seeds):
            points = truth.points(np.random.default_rng(seed))
            if len(points) <= most:
                clean = truth.name.split(", ")[1] in ("even", "random")
                yield "clean" if clean else "damaged", points, truth.spectrum(K)


def meshes(
    paths: list[Path], sizes: list[int], even: bool
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Random points of meshes, or even ones too, and the spectra of their finite elements."""
    for path in find_shapes(paths):
        shape = ep.geometry.load(path)
        spectrum = np.asarray(ep.geometry.oracle(shape.vertices, shape.faces, K).eigenvalues)
        for n in sizes:
            if n < len(shape.vertices):
                yield "meshes", ep.geometry.sample_surface(shape, n), spectrum
                if even:
                    dense = ep.geometry.sample_surface(shape, 8 * n)
                    yield (
                        "meshes, even",
                        dense[ep.geometry.farthest_points(dense, n, start=0)],
                        spectrum,
                    )


def procedural(count: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Random points of procedural shapes, every other one folded, and the spectra of their finite
    elements.
    """
    names = sorted(FAMILIES)
    for seed in range(FIRST, FIRST + count):
        rng = np.random.default_rng(seed)
        field = FAMILIES[names[seed % len(names)]][0](Rng(1, torch.Generator().manual_seed(seed)))
        coarse, _ = mesh_field(field, np.full(3, -2.2), np.full(3, 2.2), 56)
        vertices, faces = mesh_field(field, coarse.min(0) - 0.05, coarse.max(0) + 0.05, 64)
        vertices = (vertices - vertices.mean(0)) / np.abs(vertices - vertices.mean(0)).max()
        if seed // len(names) % 2:
            vertices = folded(vertices, faces, rng)
        spectrum = np.asarray(ep.geometry.oracle(vertices, faces, K).eigenvalues)
        for n in SIZES:
            yield (
                "procedural",
                ep.geometry.sample_surface((vertices, faces), n, seed=seed),
                spectrum,
            )


def folded(vertices: np.ndarray, faces: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A part of a closed mesh moved along its surface to another that is near in space: they touch,
    or cross.
    """
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    for _ in range(12):
        length = np.linalg.norm(vertices[ends[:, 0]] - vertices[ends[:, 1]], axis=1)
        way = csr_matrix((length, tuple(ends.T)), shape=(len(vertices),) * 2)
        centre = int(rng.integers(len(vertices)))
        along, chord = dijkstra(way, directed=False, indices=centre), vertices - vertices[centre]
        far = np.linalg.norm(chord, axis=1)
        near = (along > 2.2 * far) & (far < 0.7) & (far > 0.03)
        if not near.any():
            continue
        other = int(np.where(near, far, np.inf).argmin())
        radius = min(max(far[other] * rng.uniform(1.5, 5), 0.08), 0.7 * along[other])
        share = np.clip(1 - (along / radius) ** 2, 0, None) ** 2
        vertices = vertices + share[:, None] * chord[other] * (
            1 - rng.uniform(-0.05, 0.03) / far[other]
        )
        if rng.random() < 0.5:
            break
    return vertices


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("meshes", type=existing, nargs="*")
    parser.add_argument("--even", action="store_true", help="the meshes sampled evenly, too")
    parser.add_argument("--points", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--shapes", type=int, default=34, help="procedural ones")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--most", type=int, default=5000, help="points of a cloud of known spectrum"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[Case]] = defaultdict(list)
    sources = (
        closed_forms(options.seeds, options.most),
        meshes(options.meshes, options.points, options.even),
    )
    for kind, points, spectrum in chain(*sources, procedural(options.shapes)):
        found[kind].append(measure(points, spectrum))
    found["all"] = [each for group in list(found.values()) for each in group]
    curve = {}
    print("share of eigenvalues whose true error is below t estimates")
    print(f"{'':12s} clouds  " + "".join(f"t = {t:<6g}" for t in TIMES) + "median true / estimate")
    for kind, each in found.items():
        ratio = np.concatenate([case.ratio for case in each])
        wrong, right = [c for c in each if c.error > 0.1], [c for c in each if c.error < 0.05]
        curve[kind] = {"clouds": len(each), "median": float(np.median(ratio))}
        curve[kind] |= {"wrong": len(wrong), "silent": sum(not case.said for case in wrong)}
        curve[kind] |= {"right": len(right), "false alarms": sum(case.said for case in right)}
        curve[kind] |= {str(t): float((ratio <= t).mean()) for t in TIMES}
        shares = "".join(f"{(ratio <= t).mean():<10.3f}" for t in TIMES)
        print(f"{kind:12s} {len(each):6d}  {shares}{np.median(ratio):.2f}")
        print(f"{'':12s} " + "  ".join(f"{name} {curve[kind][name]}" for name in COUNTS))
    seconds = np.sum([case.seconds for case in found["all"]], axis=0)
    print(f"seconds: {seconds[0]:.1f} of decompositions, {seconds[1]:.1f} of estimates")
    content = {
        "curve": curve,
        "seconds": {"decompositions": float(seconds[0]), "estimates": float(seconds[1])},
    }
    write("calibration.json", facts("calibration", "cpu", options, seed=0) | content)


if __name__ == "__main__":
    main()
