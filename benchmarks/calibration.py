"""Whether `basis.uncertainty` holds: true errors of eigenvalues over estimated ones, on clouds of known spectrum.

    python -m benchmarks.calibration [MESHES...] [--points 500 1500 4000] [--seeds 2] [--most 5000]

Prints the curve  share of cases with  true <= t * estimate  for several t, of eigenvalues 2 to 20: of all of `truths`
(closed forms, clean and damaged), and of samples of meshes against their finite elements. At t = 2 it is to be .9.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import eigenprobe as ep
from benchmarks.record import existing, facts, write
from benchmarks.truths import TRUTHS
from eigenprobe.readers.shapes import find_shapes

K = 20
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)


def ratios(points: np.ndarray, spectrum: np.ndarray) -> tuple[np.ndarray, float, float]:
    """True over estimated relative errors of eigenvalues 2 to k, and the seconds of the basis and of the estimate."""
    from time import perf_counter

    k = min(len(spectrum), len(points) // 3)
    began = perf_counter()
    basis = ep.decompose(points, k=k)
    solved = perf_counter()
    estimate = basis.uncertainty.eigenvalues[1:]
    true = np.abs(basis.eigenvalues[1:] / spectrum[1:k] - 1)
    return true / np.maximum(estimate, 1e-12), solved - began, perf_counter() - solved


def closed_forms(seeds: int, most: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Kind (clean or damaged), points and spectrum of all clouds of at most ``most`` points."""
    for truth in TRUTHS:
        for seed in range(seeds):
            points = truth.points(np.random.default_rng(seed))
            if len(points) <= most:
                clean = truth.name.split(", ")[1] in ("even", "random")
                yield "clean" if clean else "damaged", points, truth.spectrum(K)


def meshes(paths: list[Path], sizes: list[int]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Random points of meshes and the spectra of their finite elements."""
    for path in find_shapes(paths):
        shape = ep.geometry.load(path)
        spectrum = np.asarray(ep.geometry.oracle(shape.vertices, shape.faces, K).eigenvalues)
        for n in sizes:
            if n < len(shape.vertices):
                yield "meshes", ep.geometry.sample_surface(shape, n), spectrum


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=existing, nargs="*")
    parser.add_argument("--points", type=int, nargs="+", default=[500, 1500, 4000])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--most", type=int, default=5000, help="points of a cloud of known spectrum")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[np.ndarray]] = defaultdict(list)
    seconds = np.zeros(2)
    for cases in (closed_forms(options.seeds, options.most), meshes(options.meshes, options.points)):
        for kind, points, spectrum in cases:
            each, *took = ratios(points, spectrum)
            found[kind].append(each)
            seconds += took
    found["all"] = [each for group in list(found.values()) for each in group]
    curve = {}
    print("share of eigenvalues whose true error is below t estimates")
    print(f"{'':10s} clouds  " + "".join(f"t = {t:<6g}" for t in TIMES) + "median true / estimate")
    for kind, each in found.items():
        ratio = np.concatenate(each)
        curve[kind] = {"clouds": len(each), "median": float(np.median(ratio))}
        curve[kind] |= {str(t): float((ratio <= t).mean()) for t in TIMES}
        shares = "".join(f"{(ratio <= t).mean():<10.3f}" for t in TIMES)
        print(f"{kind:10s} {len(each):6d}  {shares}{np.median(ratio):.2f}")
    print(f"seconds: {seconds[0]:.1f} of decompositions, {seconds[1]:.1f} of estimates")
    content = {"curve": curve, "seconds": {"decompositions": seconds[0], "estimates": seconds[1]}}
    write("calibration.json", facts("calibration", "cpu", options, seed=0) | content)


if __name__ == "__main__":
    main()
