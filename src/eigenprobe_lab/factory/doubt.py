"""Training of the model that says whether eigenvalues are likely to be off.

    python -m eigenprobe_lab.factory.doubt MESHES.npz --out FOLDER [--clouds 12000]

Clouds of known spectrum: curves by their length, boxes of one to eight dimensions (flat or rolled),
spheres, balls, tori, and meshes (``NAME/v``, ``NAME/f``) by their cotangent Laplacian; of few and
of many points, even and random, some with noise, outliers, copies, or much denser on one side.  A
cloud counts as wrong where the mean relative error of its first ten eigenvalues is above a tenth.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from eigenprobe.cloud.farthest import farthest_points
from eigenprobe.decomposition.indicators import NUMBERS, REASONS, describe, doubt_network
from eigenprobe.decomposition.settings import OperatorSettings, prepare
from eigenprobe.eigen import rotate, solve
from eigenprobe.eigen.span import RitzPairs
from eigenprobe.geometry import draw_surface, oracle

from .classifier import learn

WRONG, RIGHT = 0.1, 0.05  # mean error: what is to be told, and what is not
FALSE = 3.0  # wrong clouds in silence that one false alarm is worth: even odds are at logit 0
DAMAGES = ("none", "none", "none", "noise", "outliers", "copies", "step", "uneven")
BALL = np.repeat([4.3330, 11.1700, 20.1907, 20.3714], [3, 5, 1, 7])  # zeros of j_l', squared


@dataclass(frozen=True)
class Known:
    """Points ``(n, d)``, the first ten eigenvalues after 0, and the dimension."""

    points: np.ndarray
    values: np.ndarray
    dimension: int


def box(n: int, even: bool, rng: np.random.Generator) -> Known:
    """A box whose sides differ, in space as it is or rolled up along a spiral."""
    dim = int(rng.choice([1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 5, 6, 8]))
    sides = np.exp(rng.uniform(0, rng.choice([0.0, 0.3, 1.5, 3.0, 7.0]), dim))
    sides /= sides.max()
    waves = np.array(list(product(range(12 if dim < 4 else 4), repeat=dim)), float)
    if dim == 2 or dim == 3:
        waves = np.concatenate([waves, np.eye(dim)[sides.argmax()] * np.arange(12, 40)[:, None]])
    values = np.sort(((np.pi * waves / sides) ** 2).sum(1))[1:11]
    if even and dim < 4:
        count = np.maximum(1, np.round(sides * (n / sides.prod()) ** (1 / dim))).astype(int)
        axes = [(np.arange(m) + 0.5) / m * side for m, side in zip(count, sides, strict=True)]
        x = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, dim)[: 3 * n]
    else:
        x = rng.random((n, dim)) * sides
    if dim < 3 and rng.random() < 0.5:
        angle = np.linspace(0, rng.uniform(0.5, 16), 4001)
        radius = 1 + rng.uniform(0.02, 0.3) * angle
        spiral = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
        along = np.append(0, np.linalg.norm(np.diff(spiral, axis=0), axis=1).cumsum())
        size = along[-1] / x[:, 0].max()
        rolled = [np.interp(x[:, 0] * size, along, column) / size for column in spiral.T]
        x = np.concatenate([np.stack(rolled, 1), x[:, 1:]], 1)
    more = int(rng.integers(3)) if dim < 4 else 0
    x = np.pad(x, ((0, 0), (0, max(more, 2 - x.shape[1]))))
    return Known(x, values, dim)


def curve(n: int, even: bool, rng: np.random.Generator) -> Known:
    """A curve of a few waves or turns, open or closed."""
    closed, d = bool(rng.random() < 0.5), int(rng.choice([2, 3]))
    t = np.linspace(0, 1, 20001)
    if closed:
        most = int(rng.integers(1, 5))
        phase = rng.uniform(0, 2 * np.pi, (d, most))
        size = rng.standard_normal((d, most)) / np.arange(1, most + 1)
        part = 2 * np.pi * np.arange(1, most + 1) * t[:, None, None] + phase
        dense = (size * np.cos(part)).sum(2)
    else:
        turns, rise = rng.uniform(0.2, 6), rng.uniform(0.02, 0.6)
        grow = 1 + rng.uniform(0, 2) * t if d == 3 else 0.2 + t
        angle = 2 * np.pi * turns * t
        dense = np.stack([grow * np.cos(angle), grow * np.sin(angle), rise * turns * t][:d], 1)
    steps = np.linalg.norm(np.diff(dense, axis=0), axis=1)
    along = np.append(0, steps.cumsum())
    s = (np.arange(n) + 0.5) / n if even else np.sort(rng.random(n))
    x = np.stack([np.interp(s * along[-1], along, column) for column in dense.T], 1)
    rank = np.repeat(np.arange(1, 6), 2) * 2 if closed else np.arange(1, 11)
    return Known(x, (np.pi * rank / along[-1]) ** 2, 1)


def round_one(n: int, even: bool, rng: np.random.Generator) -> Known:
    """A sphere of two or three dimensions, a ball, or a flat torus."""
    kind = int(rng.integers(4))
    if kind == 2:
        dim = int(rng.choice([1, 2, 2, 3]))
        side = max(2, round(n ** (1 / dim)))
        axes = [np.arange(side) / side] * dim
        q = np.stack(np.meshgrid(*axes), -1).reshape(-1, dim) if even else rng.random((n, dim))
        waves = np.array(list(product(range(-6, 7), repeat=dim)), float)
        values = np.sort((waves**2).sum(1))[1:11]
        return Known(np.c_[np.cos(2 * np.pi * q), np.sin(2 * np.pi * q)], values, dim)
    count = 4 * n if even else n
    x = rng.standard_normal((count, 4 if kind == 3 else 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    if kind == 1:
        x *= rng.random((count, 1)) ** (1 / 3)
    x = x[farthest_points(x, n, 0)] if even else x
    known = {0: np.repeat([2.0, 6.0, 12.0], [3, 5, 2]), 1: BALL[:10]}
    known[3] = np.repeat([3.0, 8.0], [4, 6])
    return Known(x, known[kind], 3 if kind else 2)


def mesh(
    n: int, even: bool, rng: np.random.Generator, *, store: dict[str, np.ndarray], names: list[str]
) -> Known:
    """A sample of a mesh of one part."""
    while True:
        name = names[rng.integers(len(names))]
        v, f = store[f"{name}/v"].astype(float), store[f"{name}/f"]
        found = oracle(v, f, 11)
        if found.eigenvalues[1] > 1e-3 * found.eigenvalues[10]:
            break
    x = draw_surface((v, f), 4 * n if even else n, int(rng.integers(1 << 30))).points
    return Known(x[farthest_points(x, n, 0)] if even else x, found.eigenvalues[1:11], 2)


def damaged(known: Known, rng: np.random.Generator) -> np.ndarray:
    """The points as a sensor, a bug or a biased sample leaves them."""
    x, kind = known.points, DAMAGES[rng.integers(len(DAMAGES))]
    size = np.linalg.norm(x - x.mean(0), axis=1).max()
    if kind == "noise":
        return x + size * np.exp(rng.uniform(-7, -3)) * rng.standard_normal(x.shape)
    if kind == "outliers":
        count = max(1, int(rng.uniform(0.002, 0.05) * len(x)))
        low, high = x.min(0), x.max(0)
        return np.r_[x, low + rng.random((count, x.shape[1])) * (high - low + 0.2 * size)]
    if kind == "copies":
        count = int(rng.integers(2, 5))
        x = np.repeat(x[rng.permutation(len(x))[: max(12, len(x) // count)]], count, axis=0)
        return x + 10 ** rng.uniform(-9, -1.5) * size * rng.standard_normal(x.shape)
    if kind in ("step", "uneven"):
        along = x @ rng.standard_normal(x.shape[1])
        place = (along - along.min()) / max(np.ptp(along), 1e-9)
        ratio = 10 ** rng.uniform(0.3, 4.5)
        share = np.where(place > 0.5, 1 / ratio, 1.0) if kind == "step" else ratio**-place
        kept = rng.random(len(x)) < share
        return x[kept] if kept.sum() > 12 else x
    return x


def example(known: Known, x: np.ndarray, chosen: bool) -> tuple[Tensor, float] | None:
    """What the model reads of a cloud, and the mean error of its first ten; None of what has no
    answer, or several parts.
    """
    wanted = OperatorSettings(dimension=float(known.dimension) if chosen else None)
    made = prepare(torch.from_numpy(x), wanted, 11)
    if made.smoother.components[0] > 1:
        return None
    pairs = solve(made.smoother, min(11, made.smoother.n))
    count = len(pairs.gaps)
    turned: RitzPairs = rotate(pairs.vectors, made.smoother, count, gaps=pairs.gaps)
    numbers = describe(made, turned, chosen)
    if numbers is None:
        return None
    found = turned.eigenvalues.numpy()[1:] / made.cloud.frame.scale**2
    return numbers, float(np.mean(np.minimum(np.abs(found / known.values[: len(found)] - 1), 10)))


def examples(path: Path | None, clouds: int, seed: int) -> list[tuple[Tensor, float, str]]:
    """Numbers, errors and kinds of many clouds."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    makers = {"box": box, "curve": curve, "round": round_one}
    if path is not None:
        store = dict(np.load(path))
        names = sorted({name.split("/")[0] for name in store if name.endswith("/f")})
        few = [name for name in names if len(store[f"{name}/v"]) < 4000]
        makers["mesh"] = partial(mesh, store=store, names=few)
    made = []
    for _ in range(clouds):
        name = str(rng.choice(list(makers)))
        fewest = {"curve": 14, "mesh": 200}.get(name, 50)
        n = int(np.exp(rng.uniform(math.log(fewest), math.log(5000))))
        try:
            known = makers[name](n, bool(rng.random() < 0.5), rng)
            turn = np.linalg.qr(rng.standard_normal((known.points.shape[1],) * 2))[0]
            found = example(known, damaged(known, rng) @ turn, bool(rng.random() < 0.3))
        except ValueError:  # too few points of a part, which is refused
            continue
        if found is not None:
            made.append((*found, name))
    return made


def train(inputs: Tensor, errors: Tensor, epochs: int = 300, seed: int = 0) -> nn.Sequential:
    """The model of a wrong cloud; between right and wrong an answer counts little, and a right
    one counts `FALSE` wrong ones.
    """
    torch.manual_seed(seed)
    target = (errors > WRONG).float()
    weight = torch.where(errors > WRONG, 1.0, torch.where(errors < RIGHT, FALSE, 0.2))
    network, columns = doubt_network(), (inputs, target, weight)
    return learn(network, *columns, epochs=epochs, rate=1e-2, batch=256, least=1e-2, noise=0.05)


def reference(right: Tensor) -> Tensor:
    """The usual and the worst numbers ``(2, reasons)`` of clouds that are right; few layers are the
    worse ones, of all others the larger numbers.
    """
    numbers = right[:, : len(REASONS)]
    low, usual, high = numbers.quantile(torch.tensor([0.05, 0.5, 0.95]), dim=0)
    worst = torch.where(torch.tensor([name == "layers" for name in REASONS]), low, high)
    least = 0.1 * torch.where(worst < usual, -1.0, 1.0)
    return torch.stack([usual, torch.where((worst - usual).abs() < 0.1, usual + least, worst)])


def report(found: nn.Sequential, made: list[tuple[Tensor, float, str]]) -> None:
    """Wrong clouds that are told, and right ones that are doubted, by kind."""
    for kind in sorted({name for *_, name in made}):
        inputs = torch.stack([numbers for numbers, _, name in made if name == kind])
        errors = torch.tensor([error for _, error, name in made if name == kind])
        told = found(inputs)[:, 0] > 0
        wrong, right = errors > WRONG, errors < RIGHT
        print(
            f"{kind:6s} {len(errors):5d} clouds: told {int((told & wrong).sum())} of "
            f"{int(wrong.sum())} wrong, doubted {int((told & right).sum())} of {int(right.sum())}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshes", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clouds", type=int, default=12000)
    parser.add_argument("--workers", type=int, default=2)
    o = parser.parse_args()
    jobs = [(o.meshes, o.clouds // 120, seed) for seed in range(120)]  # a sixth is to check
    with Pool(o.workers) as pool:
        made = pool.starmap(examples, jobs, chunksize=1)
    fitted = [row for part in made[:100] for row in part]
    checked = [row for part in made[100:] for row in part]
    inputs = torch.stack([numbers for numbers, *_ in fitted])
    errors = torch.tensor([error for _, error, _ in fitted])
    found = train(inputs, errors)
    right = reference(inputs[errors < RIGHT])
    report(found, checked)
    o.out.mkdir(parents=True, exist_ok=True)
    span = torch.stack([inputs.amin(0), inputs.amax(0)])
    held = found.state_dict() | {"right": right, "span": span}
    save_file(held, o.out / "doubt.safetensors", {"numbers": " ".join(NUMBERS)})


if __name__ == "__main__":
    main()
