"""Training of the network that tells outliers: clouds of meshes, sampled in many ways, some
damaged.

    python -m eigenprobe_lab.factory.outliers MESHES.npz --out FOLDER [--clouds 1500]

MESHES holds ``NAME/v (n, 3)`` and ``NAME/f (m, 3)``.  Every cloud is even, random, noisy, denser on
one side (by a step or little by little), in lines, seen by a turning scanner, a street, a tree or
wires, or a room as a camera in it sees it.  Half of them have outliers: uniform in the box, near
the surface, or beside it in a clump.  Points within one spacing of the surface are not counted.
"""

from __future__ import annotations

import argparse
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from scipy.spatial import cKDTree
from torch import Tensor, nn

from eigenprobe.cloud.farthest import farthest_points
from eigenprobe.cloud.inspection import ROUNDS, describe, outlier_network
from eigenprobe.geometry.draws import draw_surface
from eigenprobe.neighbors.search import nearest_rows, without_self

from ..shapes.meshes import read_meshes
from ..shapes.views import clutter
from .classifier import learn

SAMPLINGS = (
    "even",
    "random",
    "noise",
    "step",
    "graded",
    "graded even",
    "lines",
    "scanner",
    "street",
    "tree",
    "room",
    "room",
)
SCENES = ("street", "tree", "room")  # of several things


def surface(
    v: np.ndarray, f: np.ndarray, kind: str, n: int, rng: np.random.Generator
) -> np.ndarray:
    """About ``n`` points of a mesh, sampled in one of the `SAMPLINGS`."""
    density = np.ones(len(f))
    if kind == "step":
        along = v[f].mean(1) @ rng.standard_normal(3)
        high = along > np.quantile(along, rng.uniform(0.2, 0.8))
        density[high] = rng.uniform(3, 30)
    elif kind.startswith("graded"):
        along = v[f].mean(1) @ rng.standard_normal(3)
        density = rng.uniform(3, 60) ** ((along - along.min()) / np.ptp(along))
    more = {"even": 4, "graded even": 4, "lines": 40, "scanner": 60}.get(kind, 1)
    drawn = draw_surface((v, f), more * n, int(rng.integers(1 << 30)), density=density)
    x = drawn.points
    if kind.endswith("even"):
        weight = density[drawn.faces]
        return x[farthest_points(x, n, int(rng.integers(1 << 30)), weight=weight)]
    if kind == "noise":
        return x + rng.uniform(0.002, 0.02) * rng.standard_normal(x.shape)
    if kind in ("lines", "scanner"):
        axis = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        sensor = axis[0] * rng.uniform(1.2, 4)
        ray = (x - sensor) @ axis.T
        across = x @ axis[2] if kind == "lines" else np.arctan2(ray[:, 2], np.hypot(*ray[:, :2].T))
        gap = np.ptp(across) / rng.integers(12, 60)
        weight = np.ones(len(x)) if kind == "lines" else (ray**2).sum(1) ** -1
        offset = np.abs(across / gap - np.round(across / gap))
        chosen = np.argsort(offset / weight**0.5 / weight.max() ** -0.5)[: 6 * n]
        return x[rng.choice(chosen, n, replace=False)]
    return x


def street(shapes: list[np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    """About ``n`` returns of a turning scanner above a ground with things on it: rings that are far
    apart where they are far away, and fewer points the farther a thing is.
    """
    beams = np.deg2rad(
        np.linspace(rng.uniform(-30, -15), rng.uniform(-2.5, -1), rng.integers(12, 60))
    )
    around = np.linspace(0, 2 * np.pi, int(rng.integers(200, 1200)), endpoint=False)
    radius = (1.7 / np.tan(-beams))[:, None] * (1 + 0.003 * rng.standard_normal((1, len(around))))
    flat = np.stack([radius * np.cos(around), radius * np.sin(around)], 2).reshape(-1, 2)
    parts = [np.c_[flat, rng.normal(-1.7, 0.01, len(flat))]]
    for shape in [*shapes, *(tree(2000, rng) for _ in range(rng.integers(3)))]:
        place = rng.uniform(3, 40) * np.array([np.cos(t := rng.uniform(0, 6.3)), np.sin(t)])
        count = int(min(len(shape), 2e5 / (place**2).sum()))
        some = shape[rng.choice(len(shape), count, replace=False)] * rng.uniform(0.8, 4)
        parts.append(some - [0, 0, some[:, 2].min() + 1.7] + np.r_[place, 0])
    x = np.concatenate(parts)
    x = x[rng.choice(len(x), min(n, len(x)), replace=False)]
    return (x - x.mean(0)) / np.ptp(x, axis=0).max()


def tree(n: int, rng: np.random.Generator) -> np.ndarray:
    """A tree or a bundle of wires of ``n`` points, none of which is off it."""
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 30)))
    return clutter(1, n, generator)[0].double().numpy()


def room(shapes: list[np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    """About ``n`` points of walls and of things between them, as one or two cameras in the room
    measure them: the nearest along every ray, coarser steps of depth the farther it is.
    """
    size = rng.uniform(2, 6, 3)
    sides = rng.random((120_000, 3))
    axis = rng.integers(3, size=len(sides))
    sides[np.arange(len(sides)), axis] = rng.integers(2, size=len(sides))
    parts = [sides * size]
    for shape in shapes:
        some = shape[rng.integers(len(shape), size=6000)] * rng.uniform(0.2, 0.8)
        parts.append(some + rng.uniform(0.15, 0.85, 3) * size)
    x, seen = np.concatenate(parts), []
    for _ in range(rng.integers(1, 3)):
        ray = x - rng.uniform(0.2, 0.8, 3) * size
        far = np.linalg.norm(ray, axis=1)
        way = ray / far[:, None]
        ahead = way @ unit_vector(rng) > rng.choice([-1.0, 0.3, 0.7])  # all around, or a frame
        key = ((way + 1) * 60).astype(int) @ [1, 121, 121**2]
        order = np.lexsort((far, key))
        first = np.r_[True, np.diff(key[order]) != 0]
        group = np.cumsum(first) - 1
        front = far[order][first][group] * 1.03 > far[order]
        kept = order[front & ahead[order]]
        kept = kept[rng.random(len(kept)) < (far[kept].min() / far[kept]) ** 2 * 4]
        step = rng.uniform(0, 0.004) * far[kept] ** 2 + 1e-9
        seen.append(x[kept] + way[kept] * (np.round(far[kept] / step) * step - far[kept])[:, None])
    found = np.concatenate(seen)
    found = found[rng.choice(len(found), min(n, len(found)), replace=False)]
    return (found - found.mean(0)) / np.ptp(found, axis=0).max()


def unit_vector(rng: np.random.Generator) -> np.ndarray:
    """A random direction ``(3,)``."""
    found = rng.standard_normal(3)
    return found / np.linalg.norm(found)


def outliers(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points off a surface ``x``: half a per cent to 6 per cent of it."""
    count = max(3, int(rng.uniform(0.005, 0.06) * len(x)))
    low, high = x.min(0), x.max(0)
    kind = rng.integers(4)
    if kind < 2:
        margin = rng.uniform(0, 0.3) * (high - low)
        return low - margin + rng.random((count, 3)) * (high - low + 2 * margin)
    if kind == 2:
        spread = rng.uniform(0.02, 0.15)
        return x[rng.choice(len(x), count)] + spread * rng.standard_normal((count, 3))
    centre = low + rng.random(3) * (high - low)
    return centre + rng.uniform(0.05, 0.4) * rng.standard_normal((count, 3))


def examples(path: Path, odd: bool, clouds: int, seed: int) -> list[Tensor]:
    """Numbers and labels of the suspects of many clouds of every other mesh, round by round."""
    torch.set_num_threads(1)
    rng, meshes = np.random.default_rng(seed), read_meshes(path)[odd::2]
    inputs, labels = [], []
    for number in range(clouds):
        v, f = meshes[rng.integers(len(meshes))]
        v = v.astype(float)
        v = v - v.mean(0)
        v = v / np.linalg.norm(v, axis=1).max()
        kind = SAMPLINGS[number % len(SAMPLINGS)]
        n = int(rng.integers(500, 4000))
        x = surface(v, f, "random" if kind in SCENES else kind, n, rng)
        if kind == "tree":
            x = tree(n, rng)
        elif kind in SCENES:
            x = {"street": street, "room": room}[kind]([x] * int(rng.integers(2, 12)), n, rng)
        good = np.ones(len(x), bool)
        if number // len(SAMPLINGS) % 2:
            more = outliers(x, rng)
            places = cKDTree(x)
            near = places.query(more)
            own = places.query(x[near[1]], 7)[0][:, 1:].mean(1)
            more = more[near[0] > own]  # within one spacing of the surface nobody can tell
            x, good = np.r_[x, more], np.r_[good, np.zeros(len(more), bool)]
        points, left = torch.from_numpy(x), torch.from_numpy(good)
        for _ in range(ROUNDS):
            lists = without_self(*nearest_rows(points, points, 13))
            rows, numbers = describe(points, *lists)
            inputs.append(numbers)
            labels.append(~left[rows])
            kept = torch.ones(len(points), dtype=torch.bool)
            kept[rows[~left[rows]]] = torch.rand(int((~left[rows]).sum())) < 0.2  # most are found
            points, left = points[kept], left[kept]
    return [torch.cat(inputs), torch.cat(labels).float()]


def train(inputs: Tensor, labels: Tensor, epochs: int = 60, seed: int = 0) -> nn.Sequential:
    """The network that tells the labels; a point of the surface counts `CAREFUL` outliers."""
    torch.manual_seed(seed)
    weight = torch.where(labels > 0, 1.0, CAREFUL)
    network = outlier_network()
    return learn(network, inputs, labels, weight, epochs=epochs, rate=3e-3, batch=4096, least=1e-3)


CAREFUL = 3.0  # a point lost on a sparse side is a larger hole than an outlier left is a bridge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshes", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clouds", type=int, default=1500)
    parser.add_argument("--workers", type=int, default=2)
    o = parser.parse_args()
    jobs = [(o.meshes, i % 6 == 0, o.clouds // 24, i) for i in range(24)]  # a sixth is to check
    with Pool(o.workers) as pool:
        made = pool.starmap(examples, jobs)
    inputs, labels = (torch.cat(part) for part in zip(*(m for m, j in zip(made, jobs) if not j[1])))
    found = train(inputs, labels)
    inputs, labels = (torch.cat(part) for part in zip(*(m for m, j in zip(made, jobs) if j[1])))
    with torch.no_grad():
        told = found(inputs)[:, 0] > 0
    missed, false = (
        (~told & (labels > 0)).sum() / labels.sum(),
        (told & (labels == 0)).float().mean(),
    )
    print(f"other meshes: {missed:.3f} of the outliers missed, {false:.4f} of the suspects lost")
    o.out.mkdir(parents=True, exist_ok=True)
    save_file(found.state_dict(), o.out / "outliers.safetensors")


if __name__ == "__main__":
    main()
